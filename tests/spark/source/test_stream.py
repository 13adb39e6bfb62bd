"""Streaming queries over topics: no lost or duplicate records, whatever happens to topics and brokers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.spark.source_topics import ParquetQuery, make_topic, recreate_topic, stream, write
from tests.support.fixtures import StartBroker

from odradek import Admin, Consumer, Producer, TopicPartition

WAIT_SECONDS_MAX = 100


def wait_until(condition: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if query is not None and query.exception() is not None:
            raise AssertionError(str(query.exception()))
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.1)


@contextmanager
def running(parquet: ParquetQuery) -> Iterator[StreamingQuery]:
    query = parquet.start()
    try:
        yield query
    finally:
        query.stop()


def has_first_commit(checkpoint: str) -> bool:
    return (Path(checkpoint) / "commits" / "0").exists()


def last_offsets(checkpoint: str) -> dict[str, dict[str, int]]:
    newest = max((int(file.name), file) for file in (Path(checkpoint) / "offsets").glob("[0-9]*"))[1]
    offsets: dict[str, dict[str, int]] = json.loads(newest.read_text().splitlines()[2])
    return offsets


def numbers(count: int, first: int = 0) -> list[str]:
    return sorted(str(number) for number in range(first, first + count))


def test_query_from_latest_reads_every_record_after_its_start(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic, 2)
    stopping = threading.Event()
    written = 0

    def produce() -> None:
        nonlocal written
        with Producer(bootstrap_servers=bootstrap) as producer:
            while not stopping.is_set():
                producer.send(topic, value=str(written).encode(), partition=0)
                written += 1
                stopping.wait(0.002)

    busy = threading.Thread(target=produce)
    busy.start()
    parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic), checkpoint)
    try:
        with running(parquet) as query:
            wait_until(lambda: len(parquet.texts()) > 100, query)
            stopping.set()
            busy.join()
            query.processAllAvailable()
    finally:
        stopping.set()
        busy.join()
    texts = sorted(map(int, parquet.texts()))
    first = json.loads((Path(checkpoint) / "offsets" / "0").read_text().splitlines()[2])[topic]["0"]
    assert first > 0
    assert texts == list(range(first, written))


def test_failed_first_batch_restarts_at_its_initial_offsets(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, ["before"])
    parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic), checkpoint)
    with running(parquet):
        wait_until(lambda: has_first_commit(checkpoint))
    # Simulate the death of the driver before the first commit.
    for name in ("0", ".0.crc"):
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
    write(bootstrap, topic, numbers(3))
    parquet.run_once()
    assert parquet.texts() == numbers(3)


def test_available_now_run_keeps_its_limits_and_its_end(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic, 2)
    write(bootstrap, topic, numbers(90))
    write(bootstrap, topic, numbers(10, first=90), 1)
    limits = {"maxOffsetsPerTrigger": "40", "minOffsetsPerTrigger": "30", "startingOffsets": "earliest"}
    parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic, **limits), checkpoint)
    progress = parquet.run_once().recentProgress
    assert parquet.texts() == numbers(100)
    assert [batch["numInputRows"] for batch in progress if batch["numInputRows"]] == [40, 40, 20]
    assert json.loads(progress[-1]["sources"][0]["endOffset"]) == {topic: {"0": 90, "1": 10}}
    write(bootstrap, topic, numbers(5, first=100))
    parquet.run_once()
    assert parquet.texts() == numbers(105)


def test_min_offsets_per_trigger_waits_until_max_trigger_delay(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "8s", "startingOffsets": "earliest"}
    parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic, **options), checkpoint)
    with running(parquet) as query:
        # The first batch does not wait: the delay is measured from it.
        wait_until(lambda: has_first_commit(checkpoint), query)
        time.sleep(1)
        write(bootstrap, topic, numbers(3))
        time.sleep(2)
        assert parquet.texts() == []
        wait_until(lambda: parquet.texts() == numbers(3), query)


def test_new_partitions_and_new_topics_are_read_from_their_first_record(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    parquet = ParquetQuery(stream(spark, bootstrap, subscribePattern=f"{topic}.*"), checkpoint)
    with running(parquet) as query:
        wait_until(lambda: has_first_commit(checkpoint), query)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({topic: 2})
        write(bootstrap, topic, numbers(3), 1)
        make_topic(bootstrap, f"{topic}.second")
        write(bootstrap, f"{topic}.second", numbers(3, first=3))
        wait_until(lambda: parquet.texts() == numbers(6), query)
    assert last_offsets(checkpoint) == {topic: {"0": 0, "1": 3}, f"{topic}.second": {"0": 3}}


def failure_of(query: StreamingQuery) -> str:
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(WAIT_SECONDS_MAX)
    return str(raised.value)


def test_recreated_topic_is_detected_after_a_restart(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(10))
    with Admin(bootstrap_servers=bootstrap) as admin:
        topic_id = admin.describe_topics([topic])[topic].topic_id
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "expectedTopicIds": json.dumps({topic: topic_id}),
    }
    ParquetQuery(stream(spark, bootstrap, **options), checkpoint).run_once()
    recreate_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(20, first=100))
    message = failure_of(ParquetQuery(stream(spark, bootstrap, **options), checkpoint).start())
    assert f"{topic}-0: topic {topic} was deleted and recreated (its id was {topic_id}" in message
    assert "from offset 10 on are lost" in message
    tolerant = ParquetQuery(stream(spark, bootstrap, **options, failOnDataLoss="false"), checkpoint)
    tolerant.run_once()
    assert tolerant.texts() == sorted([*numbers(10), *numbers(20, first=100)])


def test_topic_recreated_while_the_query_runs_is_detected_without_a_group(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(3))
    parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest"), checkpoint)
    query = parquet.start()
    wait_until(lambda: parquet.texts() == numbers(3), query)
    recreate_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(30))
    message = failure_of(query)
    assert "was deleted and recreated" in message or f"{topic}-0: the partition no longer exists" in message


def test_deleted_topic_raises_data_loss_or_is_skipped(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    for name in (topic, f"{topic}.second"):
        make_topic(bootstrap, name)
        write(bootstrap, name, numbers(2))
    options = {"subscribe": f"{topic},{topic}.second", "startingOffsets": "earliest"}
    ParquetQuery(stream(spark, bootstrap, **options), checkpoint).run_once()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([f"{topic}.second"])
    message = failure_of(ParquetQuery(stream(spark, bootstrap, **options), checkpoint).start())
    assert f"{topic}.second-0: the partition no longer exists; it had been read up to offset 2" in message
    write(bootstrap, topic, ["later"])
    tolerant = ParquetQuery(stream(spark, bootstrap, **options, failOnDataLoss="false"), checkpoint)
    tolerant.run_once()
    assert "later" in tolerant.texts()
    assert last_offsets(checkpoint) == {topic: {"0": 3}}


def test_expired_offsets_raise_or_are_skipped(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(2))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    ParquetQuery(stream(spark, bootstrap, **options), checkpoint).run_once()
    write(bootstrap, topic, numbers(8, first=2))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 5})
    message = failure_of(ParquetQuery(stream(spark, bootstrap, **options), checkpoint).start())
    assert f"{topic}-0: offsets 2 to 4 are lost: the log now starts at 5" in message
    tolerant = ParquetQuery(stream(spark, bootstrap, **options, failOnDataLoss="false"), checkpoint)
    tolerant.run_once()
    assert tolerant.texts() == sorted([*numbers(2), *numbers(5, first=5)])


def test_query_survives_a_broker_outage(
    spark: SparkSession, start_broker: StartBroker, topic: str, checkpoint: str
) -> None:
    broker = start_broker()
    make_topic(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbers(5))
    parquet = ParquetQuery(
        stream(spark, broker.bootstrap, subscribe=topic, startingOffsets="earliest"), checkpoint
    )
    with running(parquet) as query:
        wait_until(lambda: parquet.texts() == numbers(5), query)
        broker.kill()
        time.sleep(5)
        broker.start()
        write(broker.bootstrap, topic, numbers(5, first=5))
        wait_until(lambda: parquet.texts() == numbers(10), query)


def confluent_lag(bootstrap: str, group: str) -> int:
    """Return the lag as computed with librdkafka."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    futures = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    committed = futures[group].result(10).topic_partitions
    ends = client.list_offsets(
        {
            ConfluentPartition(partition.topic, partition.partition): OffsetSpec.latest()
            for partition in committed
        }
    )
    end_offsets = {
        (partition.topic, partition.partition): future.result(10).offset for partition, future in ends.items()
    }
    return sum(
        end_offsets[partition.topic, partition.partition] - partition.offset for partition in committed
    )


def test_other_clients_see_the_lag_of_a_query(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic, 2)
    write(bootstrap, topic, numbers(30))
    options = {"startingOffsets": "earliest", "kafka.group.id": topic, "maxOffsetsPerTrigger": "10"}
    parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic, **options), checkpoint)
    parquet.run_once()
    assert confluent_lag(bootstrap, topic) == 0
    write(bootstrap, topic, numbers(7, first=30), 1)
    assert confluent_lag(bootstrap, topic) == 7
    with running(parquet) as query:
        wait_until(lambda: confluent_lag(bootstrap, topic) == 0, query)
    assert parquet.texts() == numbers(37)
    with Admin(bootstrap_servers=bootstrap) as admin:
        committed = admin.list_group_offsets(topic)
    offsets = {
        str(partition.partition): offset.offset
        for partition, offset in committed.items()
        if offset is not None
    }
    assert {topic: offsets} == last_offsets(checkpoint)


def test_query_survives_failed_group_commits(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(3))
    with Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as member:
        member.subscribe([topic])
        wait_until(lambda: bool(member.poll(0.5)))
        options = {"startingOffsets": "earliest", "kafka.group.id": topic}
        parquet = ParquetQuery(stream(spark, bootstrap, subscribe=topic, **options), checkpoint)
        parquet.run_once()
    assert parquet.texts() == numbers(3)


def test_invalid_options_fail_a_query_with_one_message(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    frame = stream(spark, bootstrap, subscribe="castle", endingOffsets="latest")
    assert "endingOffsets is not allowed in a streaming query" in failure_of(
        ParquetQuery(frame, checkpoint).start()
    )
    missing = stream(spark, bootstrap, subscribe="no-such-castle")
    assert "no-such-castle does not exist: create it" in failure_of(ParquetQuery(missing, checkpoint).start())
    assert not (Path(checkpoint) / "offsets" / "0").exists()
