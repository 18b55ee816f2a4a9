"""Faults on demand: answers, drops, delays, partitions."""
