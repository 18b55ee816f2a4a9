"""rmqctl doctor: the installation, the configuration and the connection."""
