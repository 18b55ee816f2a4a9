"""Messages: finding, following, tracing them."""
