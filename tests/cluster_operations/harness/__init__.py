"""Clusters that are operated, the operations, and an earlier version of our broker."""
