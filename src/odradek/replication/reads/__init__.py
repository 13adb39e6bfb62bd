"""Reads for consumers: the replica to read from, and offsets by timestamp or epoch."""
