"""A log directory: its lock, its logs, checkpoints and pending deletes."""
