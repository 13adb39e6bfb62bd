"""Client connections: listeners, sessions, their limits and their fair scheduling."""
