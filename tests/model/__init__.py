"""Explicit-state model of replication: one partition on three brokers, searched to its end."""
