"""Delta tables without a jar: executors write Parquet files, the driver commits them."""
