"""Partition logs on disk, in Kafka's file formats: segments, indexes, checkpoints, recovery, compaction."""
