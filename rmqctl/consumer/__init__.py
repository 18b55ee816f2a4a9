"""The local runtime: a push consumer that shares groups with RocketMQ's own clients."""
