"""Range reads of a task from a real broker, compared with records written by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.support.fixtures import StartBroker

from odradek import Admin, OffsetSpec, TopicPartition
from odradek.model.client_errors import TimedOut
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source.arrow_batches import BATCH_BYTES_MAX
from odradek.spark.source.data_loss import DataLoss
from odradek.spark.source.range_reader import record_batches
from odradek.spark.source.ranges import OffsetRange
from odradek.spark.source.schema import source_schema
from odradek.spark.worker import client_pool

START_MS = int(time.time() * 1000)
"""Recent, because older records could expire before they are read."""
ALL_COLUMNS = source_schema(include_headers=True)
CREATE_TIME, APPEND_TIME = 0, 1


@pytest.fixture(autouse=True)
def clients_of_this_process() -> Iterator[None]:
    """Close the clients of this process, which runs the tasks instead of Spark's workers."""
    yield
    for entry in list(client_pool._pool._entries.values()):
        client_pool.discard(entry.client)


def create(bootstrap: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic_config = {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=topic_config)]).values():
        future.result(30)


def new_producer(bootstrap: str, **options: Any) -> confluent_kafka.Producer:
    settings = {name.replace("_", "."): value for name, value in options.items()}
    return confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **settings})


def send(producer: confluent_kafka.Producer, topic: str, value: bytes | None, **fields: Any) -> None:
    producer.produce(topic, value, partition=0, **fields)


def end_of(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        partition = TopicPartition(topic, 0)
        specs = {partition: OffsetSpec.LATEST}
        return admin.list_offsets(specs, isolation_level=isolation)[partition].offset


def read(
    bootstrap: str,
    topic: str,
    start: int,
    end: int,
    schema: StructType = ALL_COLUMNS,
    settings: dict[str, str] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    source_options = SourceOptions({"bootstrap.servers": bootstrap, **(settings or {})}, **options)
    batches = record_batches(source_options, OffsetRange(topic, 0, start, end), schema)
    return [row for batch in batches for row in batch.to_pylist()]


def values(rows: list[dict[str, Any]]) -> list[bytes | None]:
    return [row["value"] for row in rows]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_equal_written_records_in_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    create(bootstrap, topic)
    producer = new_producer(bootstrap, compression_type=codec, linger_ms=20)
    written: list[dict[str, Any]] = []
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k", b"value", [("name", b"x"), ("empty", b""), ("none", None), ("name", b"again")]),
        (None, b"x" * 5000, []),
        (b"deleted", None, []),
        (b"", b"", [("größe", "größe".encode())]),
        (None, None, []),
    ] * 40
    for offset, (key, value, headers) in enumerate(rows):
        send(producer, topic, value, key=key, headers=headers, timestamp=START_MS + offset)
        header_rows = [{"key": name, "value": content} for name, content in headers]
        time_ = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=START_MS + offset)
        row = (key, value, topic, 0, offset, time_, CREATE_TIME, header_rows or None)
        written.append(dict(zip(ALL_COLUMNS.names, row, strict=True)))
    assert producer.flush(30) == 0
    assert read(bootstrap, topic, 0, len(written)) == written
    assert read(bootstrap, topic, 33, 122) == written[33:122]


def test_ranges_split_within_batches_are_contiguous(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = new_producer(bootstrap, linger_ms=50)
    for index in range(1000):
        send(producer, topic, b"%d" % index)
    assert producer.flush(30) == 0
    cuts = [0, 1, 7, 7, 400, 401, 999, 1000]
    read_values: list[bytes | None] = []
    for start, end in pairwise(cuts):
        read_values += values(read(bootstrap, topic, start, end))
    assert read_values == [b"%d" % index for index in range(1000)]


def test_log_append_time_and_create_time_are_distinguished(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, message_timestamp_type="LogAppendTime")
    producer = new_producer(bootstrap)
    send(producer, topic, b"", timestamp=1_000)
    assert producer.flush(30) == 0
    (row,) = read(bootstrap, topic, 0, 1)
    assert row["timestampType"] == APPEND_TIME
    assert abs(row["timestamp"] - datetime.now(UTC)) < timedelta(minutes=5)


def test_aborted_records_are_read_only_with_read_uncommitted(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = new_producer(bootstrap, transactional_id=topic)
    producer.init_transactions(30)
    for value, is_kept in ((b"a", True), (b"b", False), (b"c", True), (b"d", False)):
        producer.begin_transaction()
        send(producer, topic, value)
        if is_kept:
            producer.commit_transaction(30)
        else:
            assert producer.flush(30) == 0
            producer.abort_transaction(30)
    end = end_of(bootstrap, topic, "read_committed")
    assert end == 8, "each transaction ends with a marker, which has an offset"
    committed = {"isolation.level": "read_committed"}
    assert values(read(bootstrap, topic, 0, end, settings=committed)) == [b"a", b"c"]
    assert values(read(bootstrap, topic, 0, end)) == [b"a", b"b", b"c", b"d"]
    # Ranges that start or end at offsets without a visible record.
    cut = [values(read(bootstrap, topic, at, at + 1, settings=committed)) for at in range(end)]
    assert cut == [[b"a"], [], [], [], [b"c"], [], [], []]


def test_gaps_of_a_compacted_topic_are_skipped(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker({"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "500"})
    create(
        broker.bootstrap,
        topic,
        cleanup_policy="compact",
        segment_bytes="1024",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="1",
    )
    producer = new_producer(broker.bootstrap)
    for index in range(60):
        send(producer, topic, b"%d" % index + b"x" * 200, key=b"%d" % (index % 3))
        producer.flush(30)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        # The cleaner may run between two reads.
        before = read(broker.bootstrap, topic, 0, 60)
        first, last = before[0]["offset"], before[-1]["offset"]
        inside = read(broker.bootstrap, topic, first + 1, last)
        if len(before) < 30 and before == read(broker.bootstrap, topic, 0, 60):
            break
        time.sleep(0.2)
    assert len(before) < 30
    assert last == 59
    assert all(row["value"].startswith(b"%d" % row["offset"]) for row in before)
    assert inside == before[1:-1]


def test_large_records_make_small_arrow_batches(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = new_producer(bootstrap)
    for _ in range(60):
        send(producer, topic, b"x" * 900_000)
    assert producer.flush(60) == 0
    options = SourceOptions({"bootstrap.servers": bootstrap})
    sizes, count = [], 0
    for batch in record_batches(options, OffsetRange(topic, 0, 0, 60), source_schema(False)):
        sizes.append(batch.get_total_buffer_size())
        count += batch.num_rows
    assert count == 60
    assert len(sizes) >= 3
    assert max(sizes) < 3 * BATCH_BYTES_MAX


def test_lost_records_raise_or_are_skipped(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = new_producer(bootstrap)
    for index in range(20):
        send(producer, topic, b"%d" % index)
    assert producer.flush(30) == 0
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(DataLoss, match=f"{topic}-0: offsets 3 to 14 are lost.*failOnDataLoss=false"):
        read(bootstrap, topic, 3, 20)
    left = [b"%d" % index for index in range(15, 20)]
    assert values(read(bootstrap, topic, 3, 20, fail_on_data_loss=False)) == left
    assert values(read(bootstrap, topic, 18, 50, fail_on_data_loss=False)) == left[3:]
    with pytest.raises(DataLoss, match=f"{topic}-0: offsets up to 50 are requested, but the log ends at 20"):
        read(bootstrap, topic, 30, 50)


def test_poll_timeout_is_respected(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with pytest.raises(TimedOut, match=f"{topic}-0 .*900 ms.* at offset 0 of the range"):
        read(bootstrap, topic, 0, 5, poll_timeout_ms=900)


def test_broker_restart_is_waited_for(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    create(broker.bootstrap, topic)
    producer = new_producer(broker.bootstrap)
    for index in range(2_000):
        send(producer, topic, b"%d" % index * 50)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": broker.bootstrap, "max.partition.fetch.bytes": "20000"}
    offsets: list[int] = []
    schema = StructType([ALL_COLUMNS["offset"]])
    for count, batch in enumerate(
        record_batches(SourceOptions(settings), OffsetRange(topic, 0, 0, 2_000), schema)
    ):
        offsets += batch.column("offset").to_pylist()
        if count == 1:
            broker.kill()
            broker.start()
    assert offsets == list(range(2_000))


def test_headers_and_selected_columns_through_spark(spark: SparkSession, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = new_producer(bootstrap)
    send(producer, topic, b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp=START_MS)
    send(producer, topic, None, timestamp=START_MS + 1)
    assert producer.flush(30) == 0
    reader = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
    )
    schema = (
        "headers array<struct<key:string,value:binary>>, timestamp timestamp, value binary, timestampType int"
    )
    first, second = sorted(reader.schema(schema).load().collect(), key=lambda row: row.timestamp)
    assert [tuple(pair) for pair in first.headers] == [("h", b"1"), ("n", None)]
    assert (second.headers, second.value, second.timestampType) == (None, None, CREATE_TIME)
    assert first.timestamp.timestamp() == pytest.approx(START_MS / 1000)
