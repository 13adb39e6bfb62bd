"""Streaming queries over topics: nothing lost, nothing twice, whatever happens to topics and brokers."""

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
from tests.spark.source_topics import Sunk, make_topic, remake_topic, stream, write
from tests.support.fixtures import StartBroker

from odradek import Admin, Consumer, Producer, TopicPartition

WAIT_SECONDS_MAX = 100


def wait_until(holds: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        if query is not None and query.exception() is not None:
            raise AssertionError(str(query.exception()))
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)


@contextmanager
def running(sunk: Sunk) -> Iterator[StreamingQuery]:
    query = sunk.start()
    try:
        yield query
    finally:
        query.stop()


def is_anchored(checkpoint: str) -> bool:
    return (Path(checkpoint) / "commits" / "0").exists()


def last_offsets(checkpoint: str) -> dict[str, dict[str, int]]:
    newest = max((int(one.name), one) for one in (Path(checkpoint) / "offsets").glob("[0-9]*"))[1]
    offsets: dict[str, dict[str, int]] = json.loads(newest.read_text().splitlines()[2])
    return offsets


def numbers(count: int, first: int = 0) -> list[str]:
    return sorted(str(number) for number in range(first, first + count))


def test_a_query_from_the_end_of_a_busy_topic_misses_nothing_after_its_start(
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
    sunk = Sunk(stream(spark, bootstrap, subscribe=topic), checkpoint)
    try:
        with running(sunk) as query:
            wait_until(lambda: len(sunk.texts()) > 100, query)
            stopping.set()
            busy.join()
            query.processAllAvailable()
    finally:
        stopping.set()
        busy.join()
    texts = sorted(map(int, sunk.texts()))
    first = json.loads((Path(checkpoint) / "offsets" / "0").read_text().splitlines()[2])[topic]["0"]
    assert first > 0
    assert texts == list(range(first, written))


def test_a_first_batch_that_failed_begins_again_where_it_began(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, ["before"])
    sunk = Sunk(stream(spark, bootstrap, subscribe=topic), checkpoint)
    with running(sunk):
        wait_until(lambda: is_anchored(checkpoint))
    # As if the driver had died before the first batch was finished.
    for name in ("0", ".0.crc"):
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
    write(bootstrap, topic, numbers(3))
    sunk.run_once()
    assert sunk.texts() == numbers(3)


def test_a_run_over_what_is_there_keeps_its_limits_and_its_end(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic, 2)
    write(bootstrap, topic, numbers(90))
    write(bootstrap, topic, numbers(10, first=90), 1)
    limits = {"maxOffsetsPerTrigger": "40", "minOffsetsPerTrigger": "30", "startingOffsets": "earliest"}
    sunk = Sunk(stream(spark, bootstrap, subscribe=topic, **limits), checkpoint)
    progress = sunk.run_once().recentProgress
    assert sunk.texts() == numbers(100)
    assert [one["numInputRows"] for one in progress if one["numInputRows"]] == [40, 40, 20]
    assert json.loads(progress[-1]["sources"][0]["endOffset"]) == {topic: {"0": 90, "1": 10}}
    write(bootstrap, topic, numbers(5, first=100))
    sunk.run_once()
    assert sunk.texts() == numbers(105)


def test_small_batches_wait_for_more_until_the_delay_is_over(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "8s", "startingOffsets": "earliest"}
    sunk = Sunk(stream(spark, bootstrap, subscribe=topic, **options), checkpoint)
    with running(sunk) as query:
        # The first batch does not wait: it begins the time that is measured.
        wait_until(lambda: is_anchored(checkpoint), query)
        time.sleep(1)
        write(bootstrap, topic, numbers(3))
        time.sleep(2)
        assert sunk.texts() == []
        wait_until(lambda: sunk.texts() == numbers(3), query)


def test_new_partitions_and_new_topics_are_read_from_their_first_record(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    sunk = Sunk(stream(spark, bootstrap, subscribePattern=f"{topic}.*"), checkpoint)
    with running(sunk) as query:
        wait_until(lambda: is_anchored(checkpoint), query)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({topic: 2})
        write(bootstrap, topic, numbers(3), 1)
        make_topic(bootstrap, f"{topic}.second")
        write(bootstrap, f"{topic}.second", numbers(3, first=3))
        wait_until(lambda: sunk.texts() == numbers(6), query)
    assert last_offsets(checkpoint) == {topic: {"0": 0, "1": 3}, f"{topic}.second": {"0": 3}}


def failure_of(query: StreamingQuery) -> str:
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(WAIT_SECONDS_MAX)
    return str(raised.value)


def test_a_topic_made_again_is_told_from_the_former_one_after_a_restart(
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
    Sunk(stream(spark, bootstrap, **options), checkpoint).run_once()
    remake_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(20, first=100))
    message = failure_of(Sunk(stream(spark, bootstrap, **options), checkpoint).start())
    assert f"{topic}-0: topic {topic} was deleted and made again (its id was {topic_id}" in message
    assert "from offset 10 on is gone" in message
    tolerant = Sunk(stream(spark, bootstrap, **options, failOnDataLoss="false"), checkpoint)
    tolerant.run_once()
    assert tolerant.texts() == sorted([*numbers(10), *numbers(20, first=100)])


def test_a_topic_made_again_while_the_query_runs_is_noticed_without_a_group(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(3))
    sunk = Sunk(stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest"), checkpoint)
    query = sunk.start()
    wait_until(lambda: sunk.texts() == numbers(3), query)
    remake_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(30))
    message = failure_of(query)
    assert "was deleted and made again" in message or f"{topic}-0: the partition no longer exists" in message


def test_a_deleted_topic_is_named_or_left_out(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    for name in (topic, f"{topic}.second"):
        make_topic(bootstrap, name)
        write(bootstrap, name, numbers(2))
    options = {"subscribe": f"{topic},{topic}.second", "startingOffsets": "earliest"}
    Sunk(stream(spark, bootstrap, **options), checkpoint).run_once()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([f"{topic}.second"])
    message = failure_of(Sunk(stream(spark, bootstrap, **options), checkpoint).start())
    assert f"{topic}.second-0: the partition no longer exists; it had been read up to offset 2" in message
    write(bootstrap, topic, ["later"])
    tolerant = Sunk(stream(spark, bootstrap, **options, failOnDataLoss="false"), checkpoint)
    tolerant.run_once()
    assert "later" in tolerant.texts()
    assert last_offsets(checkpoint) == {topic: {"0": 3}}


def test_expired_offsets_are_named_or_left_out(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(2))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    Sunk(stream(spark, bootstrap, **options), checkpoint).run_once()
    write(bootstrap, topic, numbers(8, first=2))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 5})
    message = failure_of(Sunk(stream(spark, bootstrap, **options), checkpoint).start())
    assert f"{topic}-0: offsets 2 to 4 are gone, as the log now starts at 5" in message
    tolerant = Sunk(stream(spark, bootstrap, **options, failOnDataLoss="false"), checkpoint)
    tolerant.run_once()
    assert tolerant.texts() == sorted([*numbers(2), *numbers(5, first=5)])


def test_a_broker_that_is_away_for_a_while_stops_nothing(
    spark: SparkSession, start_broker: StartBroker, topic: str, checkpoint: str
) -> None:
    broker = start_broker()
    make_topic(broker.bootstrap, topic)
    write(broker.bootstrap, topic, numbers(5))
    sunk = Sunk(stream(spark, broker.bootstrap, subscribe=topic, startingOffsets="earliest"), checkpoint)
    with running(sunk) as query:
        wait_until(lambda: sunk.texts() == numbers(5), query)
        broker.kill()
        time.sleep(5)
        broker.start()
        write(broker.bootstrap, topic, numbers(5, first=5))
        wait_until(lambda: sunk.texts() == numbers(10), query)


def confluent_lag(bootstrap: str, group: str) -> int:
    """Lag as any tool on librdkafka computes it."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    committed = asked[group].result(10).topic_partitions
    ends = client.list_offsets(
        {ConfluentPartition(one.topic, one.partition): OffsetSpec.latest() for one in committed}
    )
    by_place = {(one.topic, one.partition): found.result(10).offset for one, found in ends.items()}
    return sum(by_place[one.topic, one.partition] - one.offset for one in committed)


def test_any_kafka_tool_sees_the_lag_of_a_query(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic, 2)
    write(bootstrap, topic, numbers(30))
    options = {"startingOffsets": "earliest", "kafka.group.id": topic, "maxOffsetsPerTrigger": "10"}
    sunk = Sunk(stream(spark, bootstrap, subscribe=topic, **options), checkpoint)
    sunk.run_once()
    assert confluent_lag(bootstrap, topic) == 0
    write(bootstrap, topic, numbers(7, first=30), 1)
    assert confluent_lag(bootstrap, topic) == 7
    with running(sunk) as query:
        wait_until(lambda: confluent_lag(bootstrap, topic) == 0, query)
    assert sunk.texts() == numbers(37)
    with Admin(bootstrap_servers=bootstrap) as admin:
        committed = admin.list_group_offsets(topic)
    offsets = {str(one.partition): value.offset for one, value in committed.items() if value is not None}
    assert {topic: offsets} == last_offsets(checkpoint)


def test_a_group_that_cannot_be_committed_to_stops_nothing(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, numbers(3))
    with Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as member:
        member.subscribe([topic])
        wait_until(lambda: bool(member.poll(0.5)))
        options = {"startingOffsets": "earliest", "kafka.group.id": topic}
        sunk = Sunk(stream(spark, bootstrap, subscribe=topic, **options), checkpoint)
        sunk.run_once()
    assert sunk.texts() == numbers(3)


def test_bad_options_fail_a_query_with_one_message(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    frame = stream(spark, bootstrap, subscribe="castle", endingOffsets="latest")
    assert "endingOffsets has no place in a streaming query" in failure_of(Sunk(frame, checkpoint).start())
    missing = stream(spark, bootstrap, subscribe="no-such-castle")
    assert "no-such-castle does not exist: create it" in failure_of(Sunk(missing, checkpoint).start())
    assert not (Path(checkpoint) / "offsets" / "0").exists()
