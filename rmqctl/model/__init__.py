"""Frozen values that every layer above shares; a value has no behaviour beyond its own properties."""
