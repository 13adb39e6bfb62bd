"""Partitions and their replicas: who leads, what is committed, what a client may read."""
