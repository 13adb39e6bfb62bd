"""Faults of clusters of our brokers: real processes on a real ZooKeeper, under load of real clients."""
