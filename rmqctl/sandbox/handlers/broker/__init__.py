"""Requests to brokers."""
