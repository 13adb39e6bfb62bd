"""Throttles of replication between brokers."""
