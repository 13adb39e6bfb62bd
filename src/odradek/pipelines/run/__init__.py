"""Running pipelines: supervisor, driver process, Spark session and dry runs."""
