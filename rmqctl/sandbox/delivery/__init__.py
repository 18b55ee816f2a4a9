"""Waits: requests that wait for messages, and messages that wait for their time."""
