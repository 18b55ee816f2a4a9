"""The commands about consumer groups."""
