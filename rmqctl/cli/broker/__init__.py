"""rmqctl broker."""
