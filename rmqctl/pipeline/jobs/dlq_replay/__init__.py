"""The job `dlq-replay`."""
