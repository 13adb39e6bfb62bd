"""Cooperation with other brokers: requests, producer id blocks, controlled shutdown, features."""
