"""Configurations of groups and of their dead-letter topics are created, updated and deleted."""
