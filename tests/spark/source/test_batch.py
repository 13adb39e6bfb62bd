"""Batch queries over topics: selection of topics and ranges, and errors."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.source_topics import batch, make_topic, values_of, write

from odradek import Admin, Producer, TopicPartition

HOUR_MS = 3_600_000
FIRST = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(hours=3)
"""Recent, because older records could expire before they are read."""
FIRST_MS = int(FIRST.timestamp() * 1000)


def iso(hours: float, zone: datetime.timezone = datetime.UTC) -> str:
    return (FIRST + datetime.timedelta(hours=hours)).astimezone(zone).isoformat()


VIENNA = datetime.timezone(datetime.timedelta(hours=1))


@pytest.fixture
def castle(bootstrap: str, topic: str) -> str:
    """Create a topic with two partitions: a0 … a4, b0 … b4 an hour later, and c0 in the second."""
    make_topic(bootstrap, topic, partitions=2)
    write(bootstrap, topic, [f"a{i}" for i in range(5)], timestamp_ms=FIRST_MS)
    write(bootstrap, topic, [f"b{i}" for i in range(5)], timestamp_ms=FIRST_MS + HOUR_MS)
    write(bootstrap, topic, ["c0"], 1, timestamp_ms=FIRST_MS, headers=[("from", b"the count")])
    return topic


A = [f"a{i}" for i in range(5)]
B = [f"b{i}" for i in range(5)]


def test_topic_is_read_with_the_columns_of_sparks_own_source(
    spark: SparkSession, bootstrap: str, castle: str
) -> None:
    frame = batch(spark, bootstrap, subscribe=castle, includeHeaders="true")
    rows = frame.orderBy("partition", "offset").collect()
    assert [bytes(row.value).decode() for row in rows] == [*A, *B, "c0"]
    last = rows[-1]
    assert (last.topic, last.partition, last.offset, last.key, last.timestampType) == (castle, 1, 0, None, 0)
    assert last.timestamp == FIRST.replace(tzinfo=None)
    assert [(header.key, bytes(header.value)) for header in last.headers] == [("from", b"the count")]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"startingOffsets": {"0": 8}}, [*B[3:], "c0"]),
        ({"startingOffsets": {"0": 3, "1": 1}, "endingOffsets": {"0": 6}}, [*A[3:], "b0"]),
        ({"startingOffsets": {"0": -2}, "endingOffsets": {"0": 1, "1": -1}}, ["a0", "c0"]),
        ({"startingTimestamp": iso(0, VIENNA), "endingOffsets": {"0": 2}}, [*A[:2], "c0"]),
        ({"endingTimestamp": str(FIRST_MS + HOUR_MS)}, [*A, "c0"]),
        (
            {
                "startingTimestamp": str(FIRST_MS + 1),
                "startingOffsetsByTimestampStrategy": "latest",
                "endingTimestamp": "2030-01-01",
            },
            B,
        ),
        ({"startingOffsetsByTimestamp": {"0": iso(0.5).removesuffix("+00:00")}}, [*B, "c0"]),
    ],
)
def test_ranges_by_offsets_and_timestamps(
    spark: SparkSession, bootstrap: str, castle: str, options: dict[str, Any], values: list[str]
) -> None:
    raw_options = {
        name: json.dumps({castle: value}) if isinstance(value, dict) else value
        for name, value in options.items()
    }
    assert values_of(batch(spark, bootstrap, subscribe=castle, **raw_options)) == values


def test_batch_starts_at_group_offsets(spark: SparkSession, bootstrap: str, castle: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(f"{castle}-group", {TopicPartition(castle, 0): 9})
    options = {"startingOffsets": "group", "kafka.group.id": f"{castle}-group"}
    frame = batch(spark, bootstrap, subscribe=castle, **options)
    assert values_of(frame) == ["b4", "c0"]


def test_assign_and_subscribe_pattern(spark: SparkSession, bootstrap: str, castle: str) -> None:
    assigned = batch(spark, bootstrap, assign=json.dumps({castle: [1]}))
    assert values_of(assigned) == ["c0"]
    make_topic(bootstrap, f"{castle}.second")
    write(bootstrap, f"{castle}.second", ["d0"])
    matching = batch(spark, bootstrap, subscribePattern=f"{castle}.*")
    assert values_of(matching) == [*A, *B, "c0", "d0"]
    assert values_of(batch(spark, bootstrap, subscribePattern=f"{castle}-nothing.*")) == []


def test_user_schema_selects_columns_in_any_order(spark: SparkSession, bootstrap: str, castle: str) -> None:
    frame = (
        spark.read.format("odradek")
        .schema("headers array<struct<key:string,value:binary>>, offset long")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({castle: [1]}))
        .load()
    )
    (row,) = frame.collect()
    assert frame.columns == ["headers", "offset"]
    assert (row.headers[0].key, row.offset) == ("from", 0)


def test_topic_is_read_by_sql(spark: SparkSession, bootstrap: str, castle: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW castle USING odradek OPTIONS ("
        f"`kafka.bootstrap.servers` '{bootstrap}', subscribe '{castle}')"
    )
    (row,) = spark.sql("SELECT count(*) AS n, max(offset) AS last FROM castle").collect()
    assert (row.n, row.last) == (11, 9)


def test_min_partitions_splits_ranges(spark: SparkSession, bootstrap: str, castle: str) -> None:
    frame = batch(spark, bootstrap, subscribe=castle, minPartitions="4")
    assert frame.rdd.getNumPartitions() == 4
    assert values_of(frame) == [*A, *B, "c0"]


def test_read_committed_ends_at_the_last_stable_offset(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, ["plain"])
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"undecided", partition=0)
        producer.flush()
        options = {"kafka.isolation.level": "read_committed"}
        assert values_of(batch(spark, bootstrap, subscribe=topic, **options)) == ["plain"]
        assert values_of(batch(spark, bootstrap, subscribe=topic)) == ["plain", "undecided"]
        producer.commit_transaction()
        assert values_of(batch(spark, bootstrap, subscribe=topic, **options)) == ["plain", "undecided"]


def read_error(spark: SparkSession, bootstrap: str, **options: str) -> str:
    with pytest.raises(PySparkException) as raised:
        batch(spark, bootstrap, **options).collect()
    return str(raised.value)


def test_expired_offsets_raise_or_are_skipped(spark: SparkSession, bootstrap: str, castle: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(castle, 0): 7})
    options = {"assign": json.dumps({castle: [0]}), "startingOffsets": json.dumps({castle: {"0": 2}})}
    message = read_error(spark, bootstrap, **options)
    assert f"{castle}-0: offsets 2 to 6 are lost: the log now starts at 7" in message
    assert "failOnDataLoss=false" in message
    assert values_of(batch(spark, bootstrap, **options, failOnDataLoss="false")) == B[2:]


def test_offsets_beyond_the_log_end_raise_or_are_skipped(
    spark: SparkSession, bootstrap: str, castle: str
) -> None:
    options = {"assign": json.dumps({castle: [1]}), "endingOffsets": json.dumps({castle: {"1": 12}})}
    assert f"{castle}-1: offsets up to 12 are requested, but the log ends at 1" in read_error(
        spark, bootstrap, **options
    )
    assert values_of(batch(spark, bootstrap, **options, failOnDataLoss="false")) == ["c0"]


def test_invalid_reads_fail_with_one_message(spark: SparkSession, bootstrap: str, castle: str) -> None:
    missing = f"{castle}-none does not exist: create it"
    assert missing in read_error(spark, bootstrap, subscribe=f"{castle}-none")
    assert f"{castle}-7 does not exist" in read_error(spark, bootstrap, assign=json.dumps({castle: [0, 7]}))
    unknown = json.dumps({"other": {"0": 1}})
    assert "startingOffsets names other-0" in read_error(
        spark, bootstrap, subscribe=castle, startingOffsets=unknown
    )
    reversed_range = {
        "startingOffsets": json.dumps({castle: {"0": 5}}),
        "endingOffsets": json.dumps({castle: {"0": 3}}),
    }
    assert "must be <= its endingOffsets (3), got 5" in read_error(
        spark, bootstrap, subscribe=castle, **reversed_range
    )
    assert "did you mean startingOffsets?" in read_error(
        spark, bootstrap, subscribe=castle, startingOfsets="x"
    )
    assert "has no record at or after the starting timestamp" in read_error(
        spark, bootstrap, subscribe=castle, startingTimestamp="2030-01-01"
    )


def test_unreachable_brokers_are_reported(spark: SparkSession) -> None:
    quick = {"kafka.default.api.timeout.ms": "1000", "kafka.request.timeout.ms": "900"}
    assert "127.0.0.1:1" in read_error(spark, "127.0.0.1:1", subscribe="castle", **quick)
