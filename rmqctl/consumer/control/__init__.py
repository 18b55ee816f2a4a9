"""What brokers ask of a member, and its answers."""
