"""Where Spark finds ``format("odradek_delta")``: it looks into every module named ``pyspark_…``."""

from odradek.spark.delta.delta_source import DeltaSource as DefaultSource

__all__ = ["DefaultSource"]
