"""Consumer groups while members and brokers die."""
