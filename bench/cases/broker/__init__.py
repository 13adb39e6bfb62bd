"""Brokers under load and per request: B and H cases."""
