"""Cluster metadata: the metadata cache, topic names and replica assignment."""
