"""Pipelines on Spark, each described by one TOML file."""
