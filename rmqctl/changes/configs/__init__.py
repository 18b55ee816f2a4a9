"""Changes of configurations, of a group or a topic: what brokers have, the check, the writes, the undo."""
