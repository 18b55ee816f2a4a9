"""Pure decisions that only this folder needs."""
