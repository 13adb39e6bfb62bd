"""The Kafka protocol, sans-IO: messages, headers, frames, and both ends of a connection."""
