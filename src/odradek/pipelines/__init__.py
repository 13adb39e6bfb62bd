"""Pipelines that run on Spark, each described by one file."""
