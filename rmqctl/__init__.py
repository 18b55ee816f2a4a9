"""rmqctl: a command-line toolkit for the people who run Apache RocketMQ consumer groups."""

__version__ = "0.1.0"
