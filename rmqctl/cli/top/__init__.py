"""rmqctl top."""
