"""Groups and transactions: state shards whose records live in the partitions of an internal topic."""
