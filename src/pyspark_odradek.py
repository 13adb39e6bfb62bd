"""Where Spark finds ``format("odradek")``: it looks into every module named ``pyspark_…``."""

from odradek.spark.topic_source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
