"""The producer: appends records to batches, sends them, and completes each exactly once."""
