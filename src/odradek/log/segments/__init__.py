"""Segments of a log: batches and indexes on disk, searches in them, and their files' life cycle."""
