"""A consumer's place in its group: joining, keeping it, committing, leaving."""
