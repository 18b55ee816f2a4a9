"""Consumer offsets are moved, copied and deleted."""
