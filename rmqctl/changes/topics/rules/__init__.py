"""Decisions about changes of topics."""
