"""Pure decisions that only this room needs."""
