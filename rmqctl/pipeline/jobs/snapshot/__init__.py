"""The job `snapshot`, and the table of offsets."""
