"""The job `audit`."""
