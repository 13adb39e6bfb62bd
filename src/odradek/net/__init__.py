"""Connections to brokers, as clients and other brokers use them."""
