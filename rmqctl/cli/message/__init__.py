"""The commands about messages."""
