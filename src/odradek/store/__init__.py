"""Cluster state: a store with ZooKeeper's semantics, and Kafka's znodes in it."""
