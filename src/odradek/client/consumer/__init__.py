"""The consumer: positions, fetches, and its place in a group."""
