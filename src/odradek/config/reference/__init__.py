"""Reference pages generated from the setting tables."""
