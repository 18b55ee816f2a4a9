"""Decisions about files, without I/O."""
