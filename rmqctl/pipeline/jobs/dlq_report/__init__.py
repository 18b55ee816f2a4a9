"""The job `dlq-report`."""
