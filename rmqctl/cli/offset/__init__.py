"""The commands about offsets."""
