"""Stuck messages are sent back and acknowledged, and their queues are moved past them."""
