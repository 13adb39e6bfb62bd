"""Spark's own Kafka connector, unmodified, against our broker; and our source beside it, option by option.

Its jars come from Maven Central, so `make spark-jvm-connector` runs these and nothing else does. It is also
the judge of our source: the same options must give the same rows, and the same refusals.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from bench.peers.spark_connector import spark_connector
from confluent_kafka import Consumer, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.compat.spark_topics import (
    BEGIN_MS,
    JVM,
    OURS,
    PARTITIONS,
    RECORDS,
    STEP_MS,
    SparkTopics,
    create,
    create_spark_topics,
    each,
    fill_plain,
    read,
    read_stream,
    rows,
)

MIDDLE_MS = BEGIN_MS + STEP_MS * RECORDS // 2
FUTURE_MS = BEGIN_MS + STEP_MS * RECORDS * 10_000
QUERY_SECONDS_MAX = 60
pytestmark = pytest.mark.timeout(300)
"""The first test starts a JVM, and the connector raises errors after its own retries."""

SAME_ROWS: Mapping[str, Mapping[str, str]] = {
    "a topic": {"subscribe": "<plain>"},
    "topics": {"subscribe": "<plain>,<mixed>"},
    "a pattern": {"subscribePattern": "<plain>|<mixed>"},
    "a pattern is for the whole name": {"subscribePattern": "<plain>x?"},
    "some partitions": {"assign": '{"<plain>":[0,2]}'},
    "headers": {"subscribe": "<plain>", "includeHeaders": "true"},
    "from offsets": {"subscribe": "<plain>", "startingOffsets": each({0: 3, 1: 0, 2: 5})},
    "from named offsets": {"subscribe": "<plain>", "startingOffsets": each({0: -2, 1: 4, 2: 5})},
    "to offsets": {"subscribe": "<plain>", "endingOffsets": each({0: 3, 1: 0, 2: 5})},
    "to named offsets": {"subscribe": "<plain>", "endingOffsets": each({0: -1, 1: 4, 2: 5})},
    "between offsets": {
        "assign": '{"<plain>":[1,2]}',
        "startingOffsets": each({1: 2, 2: 3}),
        "endingOffsets": each({1: 6, 2: 3}),
    },
    "from a time": {"subscribe": "<plain>", "startingTimestamp": str(MIDDLE_MS)},
    "to a time": {"subscribe": "<plain>", "endingTimestamp": str(MIDDLE_MS + 1)},
    "between times": {
        "subscribe": "<plain>",
        "startingTimestamp": str(MIDDLE_MS),
        "endingTimestamp": str(MIDDLE_MS + 5 * STEP_MS),
    },
    "to a time to come": {"subscribe": "<plain>", "endingTimestamp": str(FUTURE_MS)},
    "from times by partition": {
        "subscribe": "<plain>",
        "startingOffsetsByTimestamp": each({0: MIDDLE_MS, 1: 0, 2: MIDDLE_MS + 1}),
    },
    "to times by partition": {
        "subscribe": "<plain>",
        "endingOffsetsByTimestamp": each({0: MIDDLE_MS, 1: BEGIN_MS, 2: FUTURE_MS}),
    },
    "times before offsets": {
        "subscribe": "<plain>",
        "startingTimestamp": str(MIDDLE_MS),
        "startingOffsets": each({0: 0, 1: 0, 2: 0}),
    },
    "from a time to come, latest then": {
        "subscribe": "<plain>",
        "startingTimestamp": str(FUTURE_MS),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "more tasks than partitions": {"subscribe": "<plain>", "minPartitions": "10"},
    "fewer tasks than partitions": {"subscribe": "<plain>", "minPartitions": "1"},
    "few records in a task": {"subscribe": "<plain>", "maxRecordsPerPartition": "3"},
    "dated by the broker, compressed": {"subscribe": "<mixed>", "includeHeaders": "true"},
    "committed transactions": {"subscribe": "<settled>", "kafka.isolation.level": "read_committed"},
    "all transactions": {"subscribe": "<settled>"},
    "committed, in several tasks": {
        "subscribe": "<settled>",
        "kafka.isolation.level": "read_committed",
        "minPartitions": "8",
    },
    "what is left of a log": {"subscribe": "<trimmed>"},
    "lost records are left out": {
        "subscribe": "<trimmed>",
        "startingOffsets": each({0: 2}, "<trimmed>"),
        "failOnDataLoss": "false",
    },
    "names in any case": {"SUBSCRIBE": "<plain>", "ENDINGOFFSETS": "latest", "includeheaders": "TRUE"},
}

REFUSED: Mapping[str, Mapping[str, str]] = {
    "no topic": {},
    "an empty list of topics": {"subscribe": ""},
    "two ways to choose topics": {"subscribe": "<plain>", "subscribePattern": "x.*"},
    "a batch from the end": {"subscribe": "<plain>", "startingOffsets": "latest"},
    "a batch to the beginning": {"subscribe": "<plain>", "endingOffsets": "earliest"},
    "a batch from named ends": {"subscribe": "<plain>", "startingOffsets": each({0: -1, 1: 0, 2: 0})},
    "a batch to named beginnings": {"subscribe": "<plain>", "endingOffsets": each({0: -2, 1: 0, 2: 0})},
    "offsets that are no JSON": {"subscribe": "<plain>", "startingOffsets": "soon"},
    "partitions that are no JSON": {"assign": "<plain>"},
    "offsets of a partition that is not there": {
        "subscribe": "<plain>",
        "startingOffsets": each({0: 0, 1: 0, 2: 0, 3: 0}),
    },
    "a time to come": {"subscribe": "<plain>", "startingTimestamp": str(FUTURE_MS)},
    "a strategy that is none": {"subscribe": "<plain>", "startingOffsetsByTimestampStrategy": "guess"},
    "no tasks": {"subscribe": "<plain>", "minPartitions": "0"},
    "tasks without records": {"subscribe": "<plain>", "maxRecordsPerPartition": "0"},
    "lost records": {"subscribe": "<trimmed>", "startingOffsets": each({0: 2}, "<trimmed>")},
    "a topic that is not there": {"subscribe": "<plain>-nowhere"},
    "a reset of Kafka's": {"subscribe": "<plain>", "kafka.auto.offset.reset": "latest"},
    "a deserializer": {"subscribe": "<plain>", "kafka.key.deserializer": "x"},
    "commits by Kafka": {"subscribe": "<plain>", "kafka.enable.auto.commit": "true"},
    "interceptors": {"subscribe": "<plain>", "kafka.interceptor.classes": "x"},
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark session with the connector's jars and our source."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in spark_connector().jars))
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "1g")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.local.dir", str(folder))
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.sql.adaptive.streaming.stateless.enabled", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def stock(bootstrap: str) -> SparkTopics:
    """Topics that no test changes."""
    return create_spark_topics(bootstrap, "stock")


def test_connector_reads_what_a_client_reads(spark: SparkSession, stock: SparkTopics) -> None:
    for topic, partitions in ((stock.plain, PARTITIONS), (stock.mixed, 1), (stock.settled, 2)):
        options = {"subscribe": topic, "kafka.isolation.level": "read_committed", "includeHeaders": "true"}
        result = [row[:5] for row in rows(read(spark, JVM, stock, options))]
        assert result == _read_by_client(stock.bootstrap, topic, partitions)


@pytest.mark.parametrize("options", SAME_ROWS.values(), ids=SAME_ROWS)
def test_both_formats_return_the_same_rows(
    spark: SparkSession, stock: SparkTopics, options: Mapping[str, str]
) -> None:
    theirs, ours = (read(spark, format_, stock, options) for format_ in (JVM, OURS))
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_both_formats_reject_the_same_options(
    spark: SparkSession, stock: SparkTopics, options: Mapping[str, str]
) -> None:
    for format_ in (JVM, OURS):
        with pytest.raises((PySparkException, Py4JJavaError)):
            rows(read(spark, format_, stock, options))


@pytest.mark.parametrize(
    "options",
    [{"maxOffsetsPerTrigger": "7"}, {"maxOffsetsPerTrigger": "7", "minPartitions": "5"}, {}],
    ids=["seven at a time", "seven, in five tasks", "all at once"],
)
def test_both_formats_split_a_stream_into_the_same_batches(
    spark: SparkSession, stock: SparkTopics, tmp_path: Path, options: Mapping[str, str]
) -> None:
    def batches(format_: str) -> list[tuple[int, object]]:
        frame = read_stream(
            spark, format_, stock, {"subscribe": "<plain>", "startingOffsets": "earliest", **options}
        )
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / format_)).start()
        assert query.awaitTermination(QUERY_SECONDS_MAX)
        done = [progress for progress in query.recentProgress if progress["numInputRows"]]
        return [(item["numInputRows"], item["sources"][0]["endOffset"]) for item in done]

    assert batches(OURS) == batches(JVM)


@pytest.mark.parametrize("first", [JVM, OURS])
@pytest.mark.parametrize("second", [JVM, OURS])
def test_query_resumes_from_the_checkpoint_of_either_format(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, first: str, second: str
) -> None:
    stock = SparkTopics(bootstrap, topic, "", "", "")
    create(bootstrap, topic, PARTITIONS)
    for number, format_ in enumerate((first, second, first)):
        fill_plain(stock, first=number * RECORDS)
        _append_to_parquet(spark, format_, stock, tmp_path)
    kept = spark.read.parquet(str(tmp_path / "rows"))
    assert rows(kept) == rows(read(spark, JVM, stock, {"subscribe": topic}))
    assert kept.count() == 3 * RECORDS


@pytest.mark.parametrize("format_", [JVM, OURS])
def test_rows_are_written_as_a_batch_with_all_columns(
    spark: SparkSession, bootstrap: str, topic: str, format_: str
) -> None:
    create(bootstrap, topic, PARTITIONS)
    frame = spark.range(50).selectExpr(
        f"'{topic}' as topic",
        "cast(id as string) as key",
        "if(id % 5 = 0, null, cast(id * 2 as string)) as value",
        f"cast(id % {PARTITIONS} as int) as partition",
        "array(struct('h' as key, cast('x' as binary) as value)) as headers",
    )
    writer = frame.write.format(format_).mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.save()
    result = rows(read(spark, JVM, _only(bootstrap), {"subscribe": topic, "includeHeaders": "true"}))
    expected = {
        (topic, n % PARTITIONS, str(n).encode(), str(n * 2).encode() if n % 5 else None) for n in range(50)
    }
    assert {(row[0], row[1], row[3], row[4]) for row in result} == expected
    assert len(result) == 50
    assert all(row[7] == [("h", b"x")] for row in result)


@pytest.mark.parametrize("format_", [JVM, OURS])
def test_rows_are_written_as_a_stream_that_resumes(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, format_: str
) -> None:
    source = SparkTopics(bootstrap, f"{topic}-in", "", "", "")
    for name in (source.plain, topic):
        create(bootstrap, name, PARTITIONS)
    for number in range(2):
        fill_plain(source, first=number * RECORDS)
        frame = read_stream(spark, JVM, source, {"subscribe": "<plain>", "startingOffsets": "earliest"})
        writer = frame.select("key", "value").writeStream.format(format_).trigger(availableNow=True)
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(QUERY_SECONDS_MAX)
    sent, came = (rows(read(spark, JVM, source, {"subscribe": name})) for name in (source.plain, topic))
    as_pairs = [sorted((str(row[3]), str(row[4])) for row in side) for side in (sent, came)]
    assert as_pairs[0] == as_pairs[1]


def _only(bootstrap: str) -> SparkTopics:
    return SparkTopics(bootstrap, "", "", "", "")


def _append_to_parquet(spark: SparkSession, format_: str, stock: SparkTopics, folder: Path) -> None:
    options = {"subscribe": "<plain>", "startingOffsets": "earliest"}
    frame = read_stream(spark, format_, stock, options)
    writer = frame.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "rows"))
    assert query.awaitTermination(QUERY_SECONDS_MAX)


def _read_by_client(bootstrap: str, topic: str, partitions: int) -> list[tuple[object, ...]]:
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.partition.eof": True, "log_level": 2}
    )
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    result: list[tuple[Any, ...]] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = reader.poll(QUERY_SECONDS_MAX)
        assert message is not None
        if message.error() is not None:
            ended.add(message.partition())
        else:
            result.append((topic, message.partition(), message.offset(), message.key(), message.value()))
    reader.close()
    return sorted(result, key=lambda row: (row[1], row[2]))
