"""Messages: find, follow, send and trace them; pops and redelivery."""
