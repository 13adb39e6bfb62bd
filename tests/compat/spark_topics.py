"""Topics for comparing Spark sources, and their rows as read by either format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

BEGIN_MS = 1_700_000_000_000
STEP_MS = 1_000
RECORDS = 40
PARTITIONS = 3
ANSWER_SECONDS_MAX = 30
JVM, OURS = "kafka", "odradek"


class SparkTopics(NamedTuple):
    """Topic names and bootstrap address."""

    bootstrap: str
    plain: str
    """Three partitions: keys, values and headers present, empty and null; timestamps a second apart."""
    mixed: str
    """One partition with LogAppendTime and batches of every compression."""
    settled: str
    """Two partitions with committed and aborted transactions, and plain records."""
    trimmed: str
    """One partition without its first ten records."""


def create_spark_topics(bootstrap: str, prefix: str) -> SparkTopics:
    stock = SparkTopics(bootstrap, *(f"{prefix}-{kind}" for kind in ("plain", "mixed", "settled", "trimmed")))
    create(bootstrap, stock.plain, PARTITIONS, {"retention.ms": "-1"})
    create(bootstrap, stock.mixed, 1, {"message.timestamp.type": "LogAppendTime"})
    create(bootstrap, stock.settled, 2)
    create(bootstrap, stock.trimmed, 1)
    fill_plain(stock)
    _fill_mixed(stock)
    _fill_settled(stock)
    _fill_trimmed(stock)
    return stock


def create(bootstrap: str, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(settings or {}))])
    made[topic].result(ANSWER_SECONDS_MAX)


def fill_plain(stock: SparkTopics, first: int = 0) -> None:
    """Produce forty records to partitions 0, 2, 1, 2 in turn."""
    headers: list[list[tuple[str, str | bytes | None]]] = [
        [],
        [("h", b"1"), ("h", None), ("", b"")],
        [("trace", b"\x00\xff")],
    ]
    producer = Producer({"bootstrap.servers": stock.bootstrap})
    for number in range(first, first + RECORDS):
        producer.produce(
            stock.plain,
            key=(None, b"", f"k{number}".encode())[number % 3],
            value=(f"v{number}".encode(), b"", None)[number % 5 % 3],
            partition=(0, 2, 1, 2)[number % 4],
            timestamp=BEGIN_MS + number * STEP_MS,
            headers=headers[number % 3],
        )
    assert producer.flush(ANSWER_SECONDS_MAX) == 0


def _fill_mixed(stock: SparkTopics) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {"bootstrap.servers": stock.bootstrap, "compression.type": codec, "linger.ms": 50}
        )
        for number in range(20):
            producer.produce(stock.mixed, key=codec.encode(), value=b"%d " % number * 20)
        assert producer.flush(ANSWER_SECONDS_MAX) == 0


def _fill_settled(stock: SparkTopics) -> None:
    producer = Producer({"bootstrap.servers": stock.bootstrap, "transactional.id": f"{stock.settled}-writer"})
    producer.init_transactions(ANSWER_SECONDS_MAX)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        for item in range(6):
            producer.produce(stock.settled, value=f"{number}.{item}".encode(), partition=item % 2)
        producer.flush(ANSWER_SECONDS_MAX)
        end(ANSWER_SECONDS_MAX)
    plain = Producer({"bootstrap.servers": stock.bootstrap})
    plain.produce(stock.settled, value=b"plain", partition=0)
    assert plain.flush(ANSWER_SECONDS_MAX) == 0


def _fill_trimmed(stock: SparkTopics) -> None:
    from confluent_kafka import TopicPartition

    producer = Producer({"bootstrap.servers": stock.bootstrap})
    for number in range(30):
        producer.produce(stock.trimmed, value=str(number), partition=0)
    assert producer.flush(ANSWER_SECONDS_MAX) == 0
    admin = AdminClient({"bootstrap.servers": stock.bootstrap})
    for done in admin.delete_records([TopicPartition(stock.trimmed, 0, 10)]).values():
        done.result(ANSWER_SECONDS_MAX)


def read(spark: SparkSession, format_: str, stock: SparkTopics, options: Mapping[str, str]) -> DataFrame:
    reader = spark.read.format(format_).option("kafka.bootstrap.servers", stock.bootstrap)
    return reader.options(**named(options, stock)).load()


def read_stream(
    spark: SparkSession, format_: str, stock: SparkTopics, options: Mapping[str, str]
) -> DataFrame:
    reader = spark.readStream.format(format_).option("kafka.bootstrap.servers", stock.bootstrap)
    return reader.options(**named(options, stock)).load()


def named(options: Mapping[str, str], stock: SparkTopics) -> dict[str, str]:
    """Return options with placeholders replaced by topic names."""
    result = {}
    for name, value in options.items():
        for kind in ("plain", "mixed", "settled", "trimmed"):
            value = value.replace(f"<{kind}>", getattr(stock, kind))
        result[name] = value
    return result


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return all columns of all rows as comparable values, in log order."""
    result = [_values(row.asDict(recursive=True)) for row in frame.collect()]
    return sorted(result, key=lambda row: (row[0], row[1], row[2]))


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    front = (row["topic"], row["partition"], row["offset"], _plain(row["key"]), _plain(row["value"]))
    headers = row.get("headers")
    kept = None if headers is None else [(h["key"], _plain(h["value"])) for h in headers]
    return (*front, row["timestamp"].isoformat(), row["timestampType"], kept)


def _plain(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def each(partitions: Mapping[int, int], topic: str = "<plain>") -> str:
    """Return the offsets or timestamps of a topic in Spark's JSON."""
    return json.dumps({topic: {str(number): value for number, value in partitions.items()}})
