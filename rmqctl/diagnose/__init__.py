"""Diagnose groups: what is wrong, who reports it, and the next command. One file per check, all in one table."""
