"""Topics: creation, deletion, partitions, configs, and Metadata responses."""
