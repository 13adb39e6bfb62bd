"""State that Spark's Python workers keep from task to task."""
