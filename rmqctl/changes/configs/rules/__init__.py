"""Decisions about the fields of configurations."""
