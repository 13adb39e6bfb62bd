"""Discovery of ``format("odradek_delta")``: Spark imports every module named ``pyspark_…``."""

from odradek.spark.delta.delta_source import DeltaSource as DefaultSource

__all__ = ["DefaultSource"]
