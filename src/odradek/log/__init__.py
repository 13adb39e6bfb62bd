"""A partition's log on disk, in Kafka's files and bytes: segments, indexes, checkpoints, recovery."""
