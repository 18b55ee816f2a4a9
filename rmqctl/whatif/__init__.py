"""Trying changes out: a live group or a description of one, through the rules that clients and brokers follow."""
