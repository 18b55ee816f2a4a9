"""Frozen values that every layer above shares; no behaviour beyond what a value knows about itself."""
