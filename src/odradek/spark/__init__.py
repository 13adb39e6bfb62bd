"""Topics and Delta tables as data sources of Spark, through PySpark alone: no jar.

``format("odradek")`` reads and writes topics, ``format("odradek_delta")`` tables. Spark finds both by itself
where the package is installed (``pyspark_odradek``, ``pyspark_odradek_delta``). ``enable(spark)`` registers
them where it cannot, and sets what exactly once needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def enable(spark: SparkSession) -> None:
    """Make a session ready for both formats, and for ``guarantee=exactly_once``.

    Raises ``ExactlyOnceRefused`` if Spark was started with speculation, which cannot be switched off later.
    """
    from odradek.spark.delta.source import DeltaSource
    from odradek.spark.guards import STATELESS_ADAPTION, refuse_unsafe_settings
    from odradek.spark.source import TopicSource

    for source in (TopicSource, DeltaSource):
        spark.dataSource.register(source)
    spark.conf.set(STATELESS_ADAPTION, "false")
    refuse_unsafe_settings(lambda name: spark.conf.get(name, None), is_streaming=True)
