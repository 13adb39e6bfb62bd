"""Log compaction: selection of the log to clean, the cleaning passes, and the checkpoint."""
