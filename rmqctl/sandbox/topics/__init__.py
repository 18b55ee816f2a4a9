"""A broker's topics, and the rules for names and attributes."""
