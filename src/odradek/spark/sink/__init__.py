"""Writers of topics: at least once, or exactly once with marker transactions."""
