"""Transactions while clients and brokers die."""
