"""Churn: a discrete-event simulation of a group whose members, brokers and connections come and go."""
