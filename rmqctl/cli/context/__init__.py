"""Commands about contexts of the configuration file."""
