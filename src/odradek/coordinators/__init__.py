"""Groups and transactions: state machines whose records live in the partitions of an internal topic."""
