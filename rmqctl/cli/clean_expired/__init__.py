"""rmqctl clean-expired: stuck messages, and their cleaning."""
