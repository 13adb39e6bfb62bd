"""A log played beside a simple model of it."""
