"""Readers of topics: batch and streaming queries, their offset ranges and Arrow batches."""
