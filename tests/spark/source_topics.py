"""Helpers for tests of the source: topics, and queries over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from odradek import Admin, NewTopic, Producer


def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions=partitions)])


def recreate_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic])
        admin.create_topics([NewTopic(topic, partitions=partitions)])


def write(
    bootstrap: str,
    topic: str,
    values: Iterable[object],
    partition: int = 0,
    *,
    timestamp_ms: int | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(
                topic,
                value=str(value).encode(),
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=list(headers),
            )
        producer.flush()


def batch(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return _with(spark.read.format("odradek"), bootstrap, options).load()


def stream(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return _with(spark.readStream.format("odradek"), bootstrap, options).load()


def values_of(frame: DataFrame) -> list[str]:
    """Return the values as strings, sorted by topic, partition and offset."""
    rows = frame.orderBy("topic", "partition", "offset").selectExpr("string(value) AS text").collect()
    return [row.text for row in rows]


class ParquetQuery:
    """A restartable query into Parquet files."""

    def __init__(self, frame: DataFrame, checkpoint: str) -> None:
        self._writer = (
            frame.selectExpr("string(value) AS text")
            .writeStream.format("parquet")
            .option("checkpointLocation", checkpoint)
            .option("path", str(Path(checkpoint).parent / "parquet"))
        )
        self._spark = frame.sparkSession
        self._directory = Path(checkpoint).parent / "parquet"

    def start(self) -> StreamingQuery:
        return self._writer.trigger(processingTime="100 milliseconds").start()

    def run_once(self) -> StreamingQuery:
        """Process all available records, and end."""
        query = self._writer.trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        return query

    def texts(self) -> list[str]:
        """Return the written values, sorted."""
        if not list(self._directory.glob("*.parquet")):
            return []
        frame = self._spark.read.schema("text string").parquet(str(self._directory))
        return sorted(row.text for row in frame.collect())


def _with(reader: Any, bootstrap: str, options: dict[str, str]) -> Any:
    reader = reader.option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader
