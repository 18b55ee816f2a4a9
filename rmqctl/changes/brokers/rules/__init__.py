"""Decisions about changes of brokers."""
