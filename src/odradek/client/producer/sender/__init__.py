"""Sends batches to partition leaders and completes them."""
