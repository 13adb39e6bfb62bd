"""Partitions and their replicas: roles, the ISR, the high watermark, fetch sessions, log directory moves."""
