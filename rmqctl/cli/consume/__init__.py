"""rmqctl consume: the local consumer."""
