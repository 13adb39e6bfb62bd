"""Writers of Delta tables: Parquet files, commits and merges."""
