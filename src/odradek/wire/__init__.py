"""The Kafka protocol without input or output: messages, headers, frames, and both ends of a connection."""
