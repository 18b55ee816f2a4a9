"""rmqctl watch."""
