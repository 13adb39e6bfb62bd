"""Delta tables without a jar: tasks write Parquet files, and the driver commits them."""
