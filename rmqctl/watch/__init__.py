"""Watches groups over time: verdicts, incidents, and what reports them."""
