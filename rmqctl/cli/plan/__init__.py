"""rmqctl plan."""
