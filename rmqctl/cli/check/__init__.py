"""rmqctl check."""
