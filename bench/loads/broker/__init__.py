"""Load generators for brokers."""
