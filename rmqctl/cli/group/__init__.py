"""Commands about consumer groups."""
