"""Requests that wait for a partition: for records, for replicas, for the low watermark."""
