"""The offsets of a consumer: where queues start, how far they are, and whether another member has moved them."""
