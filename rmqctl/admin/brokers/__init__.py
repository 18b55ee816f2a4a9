"""Brokers: which there are, their status, settings and tables, and whether servers answer."""
