"""A pipeline's checkpoint: Spark's offset and commit logs, and the files and lease beside them."""
