"""Client side of connections to brokers, for clients and other brokers."""
