"""A session made ready by hand: where Spark does not find the formats by itself, and for exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def enable(spark: SparkSession) -> None:
    """Register both formats with a session, and set what ``guarantee=exactly_once`` needs.

    Raises ``ExactlyOnceRefused`` if Spark was started with speculation, which cannot be switched off later.
    """
    from odradek.spark.delta.source import DeltaSource
    from odradek.spark.guards import STATELESS_ADAPTION, refuse_unsafe_settings
    from odradek.spark.source import TopicSource

    for source in (TopicSource, DeltaSource):
        spark.dataSource.register(source)
    spark.conf.set(STATELESS_ADAPTION, "false")
    refuse_unsafe_settings(lambda name: spark.conf.get(name, None), is_streaming=True)
