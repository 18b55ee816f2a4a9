"""Diagnosis: what is wrong with a group, who reports it, and what to type next. One check a file, in one table."""
