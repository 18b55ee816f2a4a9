"""Offsets: the progress of groups, stored offsets, and writes."""
