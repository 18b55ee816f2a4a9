"""The job `lag`."""
