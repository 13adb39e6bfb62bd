"""A session made ready by hand: where Spark does not find the formats by itself, and for exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def enable(spark: SparkSession) -> None:
    """Register both formats with a session, and set what ``guarantee=exactly_once`` needs.

    Raises ``ExactlyOnceUnsupported`` if Spark was started with speculation, which cannot be switched off
    later.
    """
    from odradek.spark.delta.delta_source import DeltaSource
    from odradek.spark.sink.exactly_once_settings import STATELESS_ADAPTIVE, check_exactly_once_settings
    from odradek.spark.topic_source import TopicSource

    with _environment_for_many_threads(spark):
        for source in (TopicSource, DeltaSource):
            spark.dataSource.register(source)
    spark.conf.set(STATELESS_ADAPTIVE, "false")
    check_exactly_once_settings(lambda name: spark.conf.get(name, None), is_streaming=True)


@contextmanager
def _environment_for_many_threads(spark: SparkSession) -> Iterator[None]:
    """Let functions made within keep their environment in a map that threads may share.

    Each query puts variables into the environment of the source it reads, on a thread of its own, and all
    queries of a session share that map and send it along with their tasks. Two that start at once can leave
    a plain HashMap with a wrong size: no task of any query can be read from then on (OptionalDataException).
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        # Spark Connect: the functions are made on the server.
        yield
        return
    context = spark.sparkContext
    plain = context.environment
    context.environment = jvm.java.util.concurrent.ConcurrentHashMap(plain)
    try:
        yield
    finally:
        context.environment = plain
