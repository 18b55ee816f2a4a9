"""Changes of topics."""
