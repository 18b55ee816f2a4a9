"""Stored messages and tables, in memory or on disk."""
