"""The tables: their columns and partitions, and their files."""
