"""Commands about the embedded name server and brokers."""
