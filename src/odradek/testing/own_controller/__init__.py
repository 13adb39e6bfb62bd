"""Simulated clusters whose brokers elect a controller among themselves."""
