"""A broker's state of pops: check-points, orderly queues, redelivery."""
