"""Topics: lists, status, routes, configuration, and their queues."""
