"""Registration of the data sources with a session, and the configuration for exactly-once writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def enable(spark: SparkSession) -> None:
    """Register both formats with a session, and set what ``guarantee=exactly_once`` requires.

    Raise ExactlyOnceUnsupported if Spark was started with speculation, which cannot be disabled later.
    """
    from odradek.spark.delta.delta_source import DeltaSource
    from odradek.spark.sink.exactly_once_settings import STATELESS_ADAPTIVE, check_exactly_once_settings
    from odradek.spark.topic_source import TopicSource

    with _thread_safe_environment(spark):
        for source in (TopicSource, DeltaSource):
            spark.dataSource.register(source)
    spark.conf.set(STATELESS_ADAPTIVE, "false")
    check_exactly_once_settings(lambda name: spark.conf.get(name, None), is_streaming=True)


@contextmanager
def _thread_safe_environment(spark: SparkSession) -> Iterator[None]:
    """Give functions created within the context a thread-safe environment map.

    Each query puts variables into the environment of its source, on its own thread. All queries of a session
    share that map and serialize it with their tasks. Two queries that start concurrently can leave a original
    HashMap with a wrong size, and then no task of any query can be deserialized (OptionalDataException).
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        # Spark Connect creates the functions on the server.
        yield
        return
    context = spark.sparkContext
    original = context.environment
    context.environment = jvm.java.util.concurrent.ConcurrentHashMap(original)
    try:
        yield
    finally:
        context.environment = original
