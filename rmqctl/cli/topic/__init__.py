"""rmqctl topic."""
