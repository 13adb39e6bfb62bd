"""Spark connectors: S cases."""
