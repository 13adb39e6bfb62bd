"""The marker transaction without Spark: tasks and drivers that die, return and compete."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow
import pytest
from tests.spark.topic_content import committed_records, committed_values, make_topic
from tests.support.fixtures import StartBroker

from odradek import Admin, TopicPartition
from odradek.spark.options.sink_options import MissingMarkers, SinkOptions, read_sink_options
from odradek.spark.sink.errors import SinkFailed
from odradek.spark.sink.marker_store import MarkerTopics, offsets_retention_ms, read_marker
from odradek.spark.sink.markers import Marker, MarkerKey, MarkersLost, ReplayMismatch, StaleCheckpoint
from odradek.spark.sink.producer_pool import ProducerPool
from odradek.spark.sink.replays import FirstBatchMarkers, WriteUnit, abort_replay, commit_replay
from odradek.spark.sink.row_sender import TaskCommitMessage
from odradek.spark.sink.transactional_writer import write_exactly_once
from odradek.spark.sink.writer import write_at_least_once


@pytest.fixture
def options(bootstrap: str, topic: str) -> SinkOptions:
    make_topic(bootstrap, topic)
    raw_options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "guarantee": "exactly_once"}
    sink_options = read_sink_options(raw_options, is_streaming=True)
    MarkerTopics(lambda: 0).ensure(sink_options)
    return sink_options


@pytest.fixture
def driver() -> Iterator[ProducerPool]:
    """Return the producer pool of one driver's executor process."""
    pool = ProducerPool()
    yield pool
    pool.clear()


@pytest.fixture
def other_driver() -> Iterator[ProducerPool]:
    pool = ProducerPool()
    yield pool
    pool.clear()


@pytest.fixture
def key(topic: str) -> MarkerKey:
    return MarkerKey(f"query-of-{topic}", 0)


def rows(*values: str) -> Iterator[pyarrow.RecordBatch]:
    for value in values:
        yield pyarrow.record_batch({"value": [value]})


def failing_rows(*values: str) -> Iterator[pyarrow.RecordBatch]:
    yield from rows(*values)
    raise ArithmeticError("the query itself failed")


def test_rows_and_marker_become_visible_atomically(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    written = write_exactly_once(options, WriteUnit(key, 0), rows("a", "b"), driver)
    assert (written.rows_count, written.is_skipped) == (2, False)
    assert [tuple(range_) for range_ in written.ranges] == [(topic, 0, 0, 1, 2)]
    assert committed_values(bootstrap, topic) == [b"a", b"b"]
    assert read_marker(options, key) == Marker(1, 2)


def test_replayed_batch_is_not_written_again_by_any_driver(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    assert options.topic is not None
    write_exactly_once(options, WriteUnit(key, 7), rows("a"), driver)
    replays = [
        write_exactly_once(options, WriteUnit(key, 7), rows("a"), pool) for pool in (driver, other_driver)
    ]
    assert replays == [TaskCommitMessage(1, is_skipped=True)] * 2
    assert committed_values(bootstrap, options.topic) == [b"a"]


def test_at_least_once_writer_writes_a_replay_again(options: SinkOptions, bootstrap: str, topic: str) -> None:
    plain = read_sink_options({"kafka.bootstrap.servers": bootstrap, "topic": topic}, is_streaming=True)
    for _ in range(2):
        write_at_least_once(plain, rows("a"))
    assert committed_values(bootstrap, topic) == [b"a", b"a"]


def test_replay_with_other_rows_is_rejected(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool
) -> None:
    write_exactly_once(options, WriteUnit(key, 0), rows("a", "b"), driver)
    with pytest.raises(ReplayMismatch, match="is replayed with 1 rows"):
        write_exactly_once(options, WriteUnit(key, 0), rows("a"), driver)


def test_failed_task_leaves_nothing_and_blocks_no_reader(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    with pytest.raises(ArithmeticError):
        write_exactly_once(options, WriteUnit(key, 0), failing_rows("a", "b"), driver)
    assert committed_records(bootstrap, topic) == []
    assert write_exactly_once(options, WriteUnit(key, 0), rows("a", "b"), driver).rows_count == 2
    assert committed_values(bootstrap, topic) == [b"a", b"b"]


def test_producer_is_reused_for_the_next_batch_of_its_partition(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    write_exactly_once(options, WriteUnit(key, 0), rows("a"), driver)
    pooled = driver.take(options, key)
    assert pooled is not None
    driver.put(pooled)
    write_exactly_once(options, WriteUnit(key, 1), rows("b"), driver)
    reused = driver.take(options, key)
    assert reused is pooled
    driver.put(reused)
    assert read_marker(options, key) == Marker(2, 1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        name = key.transactional_id(options.transactional_id_prefix)
        assert admin.describe_transactions([name])[name].producer_epoch == 0


def test_workers_alternate_on_a_partition_without_failures(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    for batch_id in range(6):
        pool = other_driver if batch_id % 2 else driver
        assert (
            write_exactly_once(options, WriteUnit(key, batch_id), rows(str(batch_id)), pool).rows_count == 1
        )
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_fenced_pooled_producer_finds_its_next_batch_written(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    write_exactly_once(options, WriteUnit(key, 0), rows("a"), driver)
    write_exactly_once(options, WriteUnit(key, 1), rows("b"), other_driver)
    assert write_exactly_once(options, WriteUnit(key, 1), rows("b"), driver).is_skipped
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [b"a", b"b"]


@pytest.mark.parametrize("both_have_written_before", [False, True])
def test_concurrent_drivers_write_a_batch_exactly_once(
    options: SinkOptions,
    key: MarkerKey,
    driver: ProducerPool,
    other_driver: ProducerPool,
    both_have_written_before: bool,
    bootstrap: str,
) -> None:
    first = 0
    if both_have_written_before:
        write_exactly_once(options, WriteUnit(key, 0), rows("0"), driver)
        write_exactly_once(options, WriteUnit(key, 1), rows("1"), other_driver)
        first = 2
    for batch_id in range(first, first + 5):
        together = threading.Barrier(2)
        outcomes: list[TaskCommitMessage | SinkFailed] = []

        def attempt(
            pool: ProducerPool,
            batch_id: int = batch_id,
            together: threading.Barrier = together,
            outcomes: list[TaskCommitMessage | SinkFailed] = outcomes,
        ) -> None:
            together.wait()
            try:
                outcomes.append(
                    write_exactly_once(options, WriteUnit(key, batch_id), rows(str(batch_id)), pool)
                )
            except SinkFailed as fenced:
                outcomes.append(fenced)

        threads = [threading.Thread(target=attempt, args=(pool,)) for pool in (driver, other_driver)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # A fenced task is run again by its driver.
        write_exactly_once(options, WriteUnit(key, batch_id), rows(str(batch_id)), driver)
        errors = [str(outcome) for outcome in outcomes if isinstance(outcome, SinkFailed)]
        assert all("another driver" in error for error in errors), errors
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [str(number).encode() for number in range(first + 5)]


def test_zombie_driver_is_fenced(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    def overtaken() -> Iterator[pyarrow.RecordBatch]:
        yield from rows("a")
        assert write_exactly_once(options, WriteUnit(key, 0), rows("a", "b"), other_driver).rows_count == 2
        yield from rows("b")

    with pytest.raises(SinkFailed, match="another driver on the same checkpoint"):
        write_exactly_once(options, WriteUnit(key, 0), overtaken(), driver)
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [b"a", b"b"]


def test_batch_without_rows_sends_no_request(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool
) -> None:
    empty = pyarrow.record_batch({"value": pyarrow.array([], pyarrow.string())})
    assert write_exactly_once(options, WriteUnit(key, 0), iter([empty]), driver) == TaskCommitMessage(0)
    assert driver.take(options, key) is None
    assert read_marker(options, key) == Marker(0)


def test_pooled_producers_are_bounded(
    options: SinkOptions, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    keys = [MarkerKey(f"query-of-{topic}", number) for number in range(6)]
    for key in keys:
        write_exactly_once(options, WriteUnit(key, 0), rows(str(key.partition)), driver)
    producers = [pooled for key in keys if (pooled := driver.take(options, key)) is not None]
    assert len(producers) == driver.producers_max == 4
    for pooled in producers:
        driver.discard(pooled)
    assert len(committed_values(bootstrap, topic)) == 6


def test_marker_topic_is_created_once_with_one_partition(bootstrap: str, topic: str) -> None:
    raw_options = {"kafka.bootstrap.servers": bootstrap, "guarantee": "exactly_once", "markerTopic": topic}
    options = read_sink_options(raw_options, is_streaming=True)
    for _ in range(2):
        MarkerTopics(lambda: 0).ensure(options)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topics([topic])[topic].partitions) == 1


def test_failed_marker_topic_creation_is_reported(bootstrap: str) -> None:
    raw_options = {
        "kafka.bootstrap.servers": bootstrap,
        "guarantee": "exactly_once",
        "markerTopic": "no/topic",
    }
    with pytest.raises(SinkFailed, match=r"requires the topic no/topic.*markerTopic"):
        MarkerTopics(lambda: 0).ensure(read_sink_options(raw_options, is_streaming=True))


def test_too_long_transaction_timeout_names_both_settings(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool
) -> None:
    settings = {**options.producer_settings, "transaction.timeout.ms": "86400000"}
    long = SinkOptions(settings, options.topic, options.guarantee)
    with pytest.raises(SinkFailed, match=r"kafka.transaction.timeout.ms \(now 86400000\).*max.timeout"):
        write_exactly_once(long, WriteUnit(key, 0), rows("a"), driver)


def test_marker_retention_is_read_from_brokers(start_broker: StartBroker) -> None:
    broker = start_broker({"offsets.retention.minutes": "61"})
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert offsets_retention_ms(admin) == 61 * 60 * 1000


def test_marker_is_a_committed_offset(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str
) -> None:
    write_exactly_once(options, WriteUnit(key, 4), rows("a"), driver)
    with Admin(bootstrap_servers=bootstrap) as admin:
        marker = admin.list_group_offsets(key.group)[TopicPartition(options.marker_topic, 0)]
    assert marker is not None
    assert marker.offset == 5


class Batch:
    """Batch 3 of a query, in which task n writes the value n; each attempt is by a new driver."""

    def __init__(self, options: SinkOptions, query: str) -> None:
        self.options, self.query = options, query

    def attempt(self, name: str, tasks: Iterable[int], batch_id: int = 3) -> list[TaskCommitMessage]:
        """Run these tasks, without the driver's commit."""
        pool, first_markers = ProducerPool(), FirstBatchMarkers()
        try:
            return [
                write_exactly_once(
                    self.options,
                    WriteUnit(MarkerKey(self.query, task), batch_id, name, name),
                    rows(f"{batch_id}.{task}"),
                    pool,
                    first_markers,
                )
                for task in tasks
            ]
        finally:
            pool.clear()

    def end(self, messages: list[TaskCommitMessage]) -> None:
        commit_replay(self.options, messages, 3)


@pytest.fixture
def batch(options: SinkOptions, topic: str) -> Batch:
    return Batch(options, f"query-of-{topic}")


@pytest.mark.parametrize("written_before", [{2, 3}, {0, 3}, {0}, {3}, {0, 1, 2, 3}])
def test_replay_with_equal_tasks_is_committed_by_the_driver(
    batch: Batch, written_before: set[int], bootstrap: str, topic: str
) -> None:
    batch.attempt("first", written_before)
    messages = batch.attempt("second", range(4))
    assert [number for number, message in enumerate(messages) if message.is_skipped] == sorted(written_before)
    assert len(committed_values(bootstrap, topic)) == len(written_before)
    batch.end(messages)
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1", b"3.2", b"3.3"]
    assert all(message.is_skipped for message in batch.attempt("third", range(4)))


@pytest.mark.parametrize("written_before", [{2, 3}, {0, 3}, {3}, {0, 1, 3}])
@pytest.mark.parametrize("tasks_count", [1, 2, 3])
def test_replay_with_fewer_tasks_writes_nothing(
    batch: Batch, written_before: set[int], tasks_count: int, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", written_before)
    messages = batch.attempt("second", range(tasks_count))
    with pytest.raises(
        ReplayMismatch, match=rf"batch 3 .* with {tasks_count} tasks, but task 3 .* has written"
    ):
        batch.end(messages)
    assert committed_values(bootstrap, topic) == [f"3.{task}".encode() for task in sorted(written_before)]
    batch.end(batch.attempt("third", range(4)))
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1", b"3.2", b"3.3"]


def test_replay_with_more_tasks_writes_nothing(
    batch: Batch, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    write_exactly_once(batch.options, WriteUnit(key, 3, "first"), rows("3.0", "3.1"), driver)
    messages = batch.attempt("second", range(4))
    with pytest.raises(ReplayMismatch, match=r"batch 3 is replayed with 1 rows in partition 0 .* with 2;"):
        batch.end(messages)
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        names = [MarkerKey(key.query, task).transactional_id("odradek-sink") for task in (1, 2, 3)]
        assert {transaction.state for transaction in admin.describe_transactions(names).values()} <= {
            "PrepareAbort",
            "CompleteAbort",
        }


def test_new_batch_is_committed_by_its_tasks(batch: Batch, bootstrap: str, topic: str) -> None:
    batch.attempt("first", range(4), batch_id=2)
    messages = batch.attempt("second", [0, 3])
    assert [message.replay for message in messages] == [None, None]
    assert committed_values(bootstrap, topic) == [b"2.0", b"2.1", b"2.2", b"2.3", b"3.0", b"3.3"]


def test_driver_death_before_committing_a_replay_duplicates_nothing(
    batch: Batch, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", [1])
    messages = batch.attempt("second", range(3))
    open_messages = [
        message
        for message in messages
        if message.replay is not None and message.replay.transaction is not None
    ]
    commit_replay(batch.options, [*open_messages[:1], *[TaskCommitMessage(0)] * 2], 3)
    batch.end(batch.attempt("third", range(3)))
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1", b"3.2"]


def test_driver_cannot_commit_a_transaction_taken_over_by_a_later_attempt(
    batch: Batch, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", [1])
    left = batch.attempt("second", [0, 1])
    batch.end(batch.attempt("third", [0, 1]))
    with pytest.raises(SinkFailed, match="another driver on the same checkpoint"):
        batch.end(left)
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1"]


def test_failed_replay_blocks_no_reader(batch: Batch, bootstrap: str, topic: str) -> None:
    batch.attempt("first", [1])
    messages = batch.attempt("second", [0, 1])
    abort_replay(batch.options, [*messages, None])
    assert committed_values(bootstrap, topic) == [b"3.1"]


def test_batch_before_the_last_one_is_rejected_by_all_tasks(batch: Batch, bootstrap: str, topic: str) -> None:
    batch.attempt("first", [0], batch_id=2)
    batch.attempt("second", [1], batch_id=4)
    for task in range(3):
        with pytest.raises(StaleCheckpoint, match=r"batch 3, but .* up to batch 4"):
            batch.attempt("third", [task])
    assert committed_values(bootstrap, topic) == [b"2.0", b"4.1"]


def test_lost_markers_are_detected(bootstrap: str, topic: str, options: SinkOptions) -> None:
    own = replace(options, marker_topic=f"{topic}-markers")
    batch = Batch(own, f"query-of-{topic}")
    batch.attempt("first", [0, 1])
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([own.marker_topic])
    for task in (0, 1, 1):
        with pytest.raises(MarkersLost, match=rf"{own.marker_topic}.*missingMarkers=write"):
            batch.attempt("second", [task])
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1"]
    batch.attempt("third", [2])
    with pytest.raises(MarkersLost):
        batch.attempt("third", [1])
    batch.options = replace(own, missing_markers=MissingMarkers.WRITE)
    batch.end(batch.attempt("fourth", range(3)))
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.0", b"3.1", b"3.1", b"3.2"]


def test_markers_are_read_once_per_run(options: SinkOptions) -> None:
    reads: list[str] = []

    def read(options: SinkOptions, query: str) -> dict[int, Marker]:
        reads.append(query)
        return {0: Marker(3, 1, "before")}

    first_markers = FirstBatchMarkers(read)
    results = [
        first_markers.of(options, WriteUnit(MarkerKey("q", task), batch_id, f"attempt-{batch_id}", run))
        for run, batch_id, task in [("r", 3, 0), ("r", 3, 1), ("r", 4, 0), ("r", 5, 1), ("s", 5, 0)]
    ]
    assert [markers is None for markers in results] == [False, False, True, True, False]
    assert reads == ["q", "q"]
