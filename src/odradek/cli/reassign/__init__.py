"""``odradek reassign``: move partitions between brokers and log directories."""
