"""A cluster watched over time."""
