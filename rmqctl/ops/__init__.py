"""Changes: planned, applied, verified, written into a journal, undone."""
