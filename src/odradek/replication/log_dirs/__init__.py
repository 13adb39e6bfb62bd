"""Moves of replicas between the log directories of a broker."""
