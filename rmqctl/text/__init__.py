"""Times, durations, wildcards, filters and lists, as people read and write them; pure."""
