"""Turns results into text: one listing, many formats. Nothing is computed here."""
