"""The commands about dead letters, one module each."""
