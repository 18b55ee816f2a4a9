"""The job `read`."""
