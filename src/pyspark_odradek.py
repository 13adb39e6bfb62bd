"""Discovery of ``format("odradek")``: Spark imports every module named ``pyspark_…``."""

from odradek.spark.topic_source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
