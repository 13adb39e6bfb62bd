"""Group and transaction coordinators: state machines on the partitions of internal topics."""
