"""Requests to the name server."""
