"""Spark drivers and brokers killed while a topic is copied."""
