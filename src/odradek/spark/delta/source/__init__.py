"""Readers of Delta tables: one version as a batch, or the log as a stream."""
