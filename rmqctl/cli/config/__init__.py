"""The configuration file: where it is, what it has, and how it is edited."""
