"""Commands about clusters."""
