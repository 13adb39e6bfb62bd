"""Our clients while brokers restart."""
