"""Proofs that take long: `make soak`."""
