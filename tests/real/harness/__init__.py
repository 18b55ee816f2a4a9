"""Starts real Apache RocketMQ (name server, brokers, Java clients, mqadmin) for the tests in this folder."""
