"""RocketMQ's remoting protocol without I/O: bytes in, events out; values in, bytes out; client and server alike."""
