"""Simulate changes to a live or described group with the rules that clients and brokers follow."""
