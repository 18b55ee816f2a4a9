"""Changes of a broker: its write permission."""
