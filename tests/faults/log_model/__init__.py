"""A log compared with a simple model of it, step by step."""
