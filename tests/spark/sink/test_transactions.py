"""The marker transaction itself, without Spark: tasks and drivers that die, come back and compete."""

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
from odradek.spark.sink.replays import FirstBatchMarkers, Unit, abort_replay, commit_replay
from odradek.spark.sink.row_sender import TaskCommitMessage
from odradek.spark.sink.transactional_writer import write_exactly_once
from odradek.spark.sink.writer import write_at_least_once


@pytest.fixture
def options(bootstrap: str, topic: str) -> SinkOptions:
    make_topic(bootstrap, topic)
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "guarantee": "exactly_once"}
    read = read_sink_options(given, is_streaming=True)
    MarkerTopics(lambda: 0).ensure(read)
    return read


@pytest.fixture
def driver() -> Iterator[ProducerPool]:
    """What a process of a driver's executors keeps."""
    kept = ProducerPool()
    yield kept
    kept.clear()


@pytest.fixture
def other_driver() -> Iterator[ProducerPool]:
    kept = ProducerPool()
    yield kept
    kept.clear()


@pytest.fixture
def key(topic: str) -> MarkerKey:
    return MarkerKey(f"query-of-{topic}", 0)


def rows(*values: str) -> Iterator[pyarrow.RecordBatch]:
    for value in values:
        yield pyarrow.record_batch({"value": [value]})


def failing_rows(*values: str) -> Iterator[pyarrow.RecordBatch]:
    yield from rows(*values)
    raise ArithmeticError("the query itself failed")


def test_rows_and_marker_become_visible_together(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    written = write_exactly_once(options, Unit(key, 0), rows("a", "b"), driver)
    assert (written.rows_count, written.is_skipped) == (2, False)
    assert [tuple(one) for one in written.ranges] == [(topic, 0, 0, 1, 2)]
    assert committed_values(bootstrap, topic) == [b"a", b"b"]
    assert read_marker(options, key) == Marker(1, 2)


def test_a_batch_that_comes_again_is_not_written_again_by_whomsoever(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    assert options.topic is not None
    write_exactly_once(options, Unit(key, 7), rows("a"), driver)
    again = [write_exactly_once(options, Unit(key, 7), rows("a"), one) for one in (driver, other_driver)]
    assert again == [TaskCommitMessage(1, is_skipped=True)] * 2
    assert committed_values(bootstrap, options.topic) == [b"a"]


def test_the_plain_sink_writes_it_again(options: SinkOptions, bootstrap: str, topic: str) -> None:
    plain = read_sink_options({"kafka.bootstrap.servers": bootstrap, "topic": topic}, is_streaming=True)
    for _ in range(2):
        write_at_least_once(plain, rows("a"))
    assert committed_values(bootstrap, topic) == [b"a", b"a"]


def test_a_batch_that_comes_again_dealt_otherwise_is_refused(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool
) -> None:
    write_exactly_once(options, Unit(key, 0), rows("a", "b"), driver)
    with pytest.raises(ReplayMismatch, match="comes again with 1 rows"):
        write_exactly_once(options, Unit(key, 0), rows("a"), driver)


def test_a_task_that_fails_in_the_midst_leaves_nothing_and_holds_up_nobody(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    with pytest.raises(ArithmeticError):
        write_exactly_once(options, Unit(key, 0), failing_rows("a", "b"), driver)
    assert committed_records(bootstrap, topic) == []
    assert write_exactly_once(options, Unit(key, 0), rows("a", "b"), driver).rows_count == 2
    assert committed_values(bootstrap, topic) == [b"a", b"b"]


def test_a_producer_is_kept_for_the_next_batch_of_its_partition(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    write_exactly_once(options, Unit(key, 0), rows("a"), driver)
    held = driver.take(options, key)
    assert held is not None
    driver.put(held)
    write_exactly_once(options, Unit(key, 1), rows("b"), driver)
    kept = driver.take(options, key)
    assert kept is held
    driver.put(kept)
    assert read_marker(options, key) == Marker(2, 1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        name = key.transactional_id(options.transactional_id_prefix)
        assert admin.describe_transactions([name])[name].producer_epoch == 0


def test_workers_that_take_turns_with_a_partition_do_not_fail_each_other(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    for batch_id in range(6):
        kept = other_driver if batch_id % 2 else driver
        assert write_exactly_once(options, Unit(key, batch_id), rows(str(batch_id)), kept).rows_count == 1
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_kept_producer_that_was_taken_over_learns_that_its_next_batch_is_written(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    write_exactly_once(options, Unit(key, 0), rows("a"), driver)
    write_exactly_once(options, Unit(key, 1), rows("b"), other_driver)
    assert write_exactly_once(options, Unit(key, 1), rows("b"), driver).is_skipped
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [b"a", b"b"]


@pytest.mark.parametrize("both_have_written_before", [False, True])
def test_of_two_drivers_that_write_the_same_batch_at_once_exactly_one_is_seen(
    options: SinkOptions,
    key: MarkerKey,
    driver: ProducerPool,
    other_driver: ProducerPool,
    both_have_written_before: bool,
    bootstrap: str,
) -> None:
    first = 0
    if both_have_written_before:
        write_exactly_once(options, Unit(key, 0), rows("0"), driver)
        write_exactly_once(options, Unit(key, 1), rows("1"), other_driver)
        first = 2
    for batch_id in range(first, first + 5):
        together = threading.Barrier(2)
        outcomes: list[TaskCommitMessage | SinkFailed] = []

        def attempt(
            kept: ProducerPool,
            batch_id: int = batch_id,
            together: threading.Barrier = together,
            outcomes: list[TaskCommitMessage | SinkFailed] = outcomes,
        ) -> None:
            together.wait()
            try:
                outcomes.append(write_exactly_once(options, Unit(key, batch_id), rows(str(batch_id)), kept))
            except SinkFailed as fenced:
                outcomes.append(fenced)

        threads = [threading.Thread(target=attempt, args=(kept,)) for kept in (driver, other_driver)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Whoever was fenced is run again by its driver.
        write_exactly_once(options, Unit(key, batch_id), rows(str(batch_id)), driver)
        fenced_words = [str(one) for one in outcomes if isinstance(one, SinkFailed)]
        assert all("another driver" in words for words in fenced_words), fenced_words
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [str(number).encode() for number in range(first + 5)]


def test_a_driver_that_comes_back_from_the_dead_is_fenced(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, other_driver: ProducerPool, bootstrap: str
) -> None:
    def overtaken() -> Iterator[pyarrow.RecordBatch]:
        yield from rows("a")
        assert write_exactly_once(options, Unit(key, 0), rows("a", "b"), other_driver).rows_count == 2
        yield from rows("b")

    with pytest.raises(SinkFailed, match="another driver on the same checkpoint"):
        write_exactly_once(options, Unit(key, 0), overtaken(), driver)
    assert options.topic is not None
    assert committed_values(bootstrap, options.topic) == [b"a", b"b"]


def test_a_batch_without_rows_asks_nobody(options: SinkOptions, key: MarkerKey, driver: ProducerPool) -> None:
    empty = pyarrow.record_batch({"value": pyarrow.array([], pyarrow.string())})
    assert write_exactly_once(options, Unit(key, 0), iter([empty]), driver) == TaskCommitMessage(0)
    assert driver.take(options, key) is None
    assert read_marker(options, key) == Marker(0)


def test_a_process_keeps_few_producers(
    options: SinkOptions, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    keys = [MarkerKey(f"query-of-{topic}", number) for number in range(6)]
    for key in keys:
        write_exactly_once(options, Unit(key, 0), rows(str(key.partition)), driver)
    kept = [held for key in keys if (held := driver.take(options, key)) is not None]
    assert len(kept) == driver.producers_max == 4
    for held in kept:
        driver.discard(held)
    assert len(committed_values(bootstrap, topic)) == 6


def test_the_marker_topic_is_made_once_with_one_partition(bootstrap: str, topic: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "guarantee": "exactly_once", "markerTopic": topic}
    options = read_sink_options(given, is_streaming=True)
    for _ in range(2):
        MarkerTopics(lambda: 0).ensure(options)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topics([topic])[topic].partitions) == 1


def test_a_marker_topic_that_cannot_be_made_is_named(bootstrap: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "guarantee": "exactly_once", "markerTopic": "no/topic"}
    with pytest.raises(SinkFailed, match=r"needs the topic no/topic.*markerTopic"):
        MarkerTopics(lambda: 0).ensure(read_sink_options(given, is_streaming=True))


def test_a_transaction_longer_than_brokers_allow_is_told_with_both_settings(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool
) -> None:
    settings = {**options.producer_settings, "transaction.timeout.ms": "86400000"}
    long = SinkOptions(settings, options.topic, options.guarantee)
    with pytest.raises(SinkFailed, match=r"kafka.transaction.timeout.ms \(now 86400000\).*max.timeout"):
        write_exactly_once(long, Unit(key, 0), rows("a"), driver)


def test_the_brokers_tell_how_long_markers_are_kept(start_broker: StartBroker) -> None:
    broker = start_broker({"offsets.retention.minutes": "61"})
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert offsets_retention_ms(admin) == 61 * 60 * 1000


def test_a_marker_is_an_ordinary_committed_offset(
    options: SinkOptions, key: MarkerKey, driver: ProducerPool, bootstrap: str
) -> None:
    write_exactly_once(options, Unit(key, 4), rows("a"), driver)
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_group_offsets(key.group)[TopicPartition(options.marker_topic, 0)]
    assert found is not None
    assert found.offset == 5


class Batch:
    """Batch 3 of a query, in which task n writes the value n: attempts at it, each by a new driver."""

    def __init__(self, options: SinkOptions, query: str) -> None:
        self.options, self.query = options, query

    def attempt(self, name: str, tasks: Iterable[int], batch_id: int = 3) -> list[TaskCommitMessage]:
        """Run these tasks; the driver does not hear of it."""
        kept, earlier = ProducerPool(), FirstBatchMarkers()
        try:
            return [
                write_exactly_once(
                    self.options,
                    Unit(MarkerKey(self.query, task), batch_id, name, name),
                    rows(f"{batch_id}.{task}"),
                    kept,
                    earlier,
                )
                for task in tasks
            ]
        finally:
            kept.clear()

    def end(self, messages: list[TaskCommitMessage]) -> None:
        commit_replay(self.options, messages, 3)


@pytest.fixture
def batch(options: SinkOptions, topic: str) -> Batch:
    return Batch(options, f"query-of-{topic}")


@pytest.mark.parametrize("written_before", [{2, 3}, {0, 3}, {0}, {3}, {0, 1, 2, 3}])
def test_a_batch_that_comes_again_with_as_many_tasks_is_completed_by_the_driver(
    batch: Batch, written_before: set[int], bootstrap: str, topic: str
) -> None:
    batch.attempt("first", written_before)
    messages = batch.attempt("second", range(4))
    assert [number for number, one in enumerate(messages) if one.is_skipped] == sorted(written_before)
    assert len(committed_values(bootstrap, topic)) == len(written_before)
    batch.end(messages)
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1", b"3.2", b"3.3"]
    assert all(one.is_skipped for one in batch.attempt("third", range(4)))


@pytest.mark.parametrize("written_before", [{2, 3}, {0, 3}, {3}, {0, 1, 3}])
@pytest.mark.parametrize("tasks_count", [1, 2, 3])
def test_a_batch_that_comes_again_with_fewer_tasks_writes_nothing(
    batch: Batch, written_before: set[int], tasks_count: int, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", written_before)
    messages = batch.attempt("second", range(tasks_count))
    with pytest.raises(ReplayMismatch, match=rf"batch 3 .* with {tasks_count} tasks, and task 3 had written"):
        batch.end(messages)
    assert committed_values(bootstrap, topic) == [f"3.{task}".encode() for task in sorted(written_before)]
    batch.end(batch.attempt("third", range(4)))
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1", b"3.2", b"3.3"]


def test_a_batch_that_comes_again_with_more_tasks_writes_nothing(
    batch: Batch, key: MarkerKey, driver: ProducerPool, bootstrap: str, topic: str
) -> None:
    write_exactly_once(batch.options, Unit(key, 3, "first"), rows("3.0", "3.1"), driver)
    messages = batch.attempt("second", range(4))
    with pytest.raises(ReplayMismatch, match=r"batch 3 comes again with 1 rows in partition 0 .* with 2;"):
        batch.end(messages)
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        names = [MarkerKey(key.query, task).transactional_id("odradek-sink") for task in (1, 2, 3)]
        assert {one.state for one in admin.describe_transactions(names).values()} <= {
            "PrepareAbort",
            "CompleteAbort",
        }


def test_a_new_batch_is_committed_task_by_task(batch: Batch, bootstrap: str, topic: str) -> None:
    batch.attempt("first", range(4), batch_id=2)
    messages = batch.attempt("second", [0, 3])
    assert [one.replay for one in messages] == [None, None]
    assert committed_values(bootstrap, topic) == [b"2.0", b"2.1", b"2.2", b"2.3", b"3.0", b"3.3"]


def test_a_driver_that_dies_before_it_ends_a_replay_leaves_no_row_twice(
    batch: Batch, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", [1])
    messages = batch.attempt("second", range(3))
    opened = [one for one in messages if one.replay is not None and one.replay.transaction is not None]
    commit_replay(batch.options, [*opened[:1], *[TaskCommitMessage(0)] * 2], 3)
    batch.end(batch.attempt("third", range(3)))
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1", b"3.2"]


def test_a_driver_cannot_end_what_a_later_attempt_has_taken_over(
    batch: Batch, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", [1])
    left = batch.attempt("second", [0, 1])
    batch.end(batch.attempt("third", [0, 1]))
    with pytest.raises(SinkFailed, match="another driver on the same checkpoint"):
        batch.end(left)
    assert committed_values(bootstrap, topic) == [b"3.0", b"3.1"]


def test_a_replay_that_failed_holds_up_no_reader(batch: Batch, bootstrap: str, topic: str) -> None:
    batch.attempt("first", [1])
    messages = batch.attempt("second", [0, 1])
    abort_replay(batch.options, [*messages, None])
    assert committed_values(bootstrap, topic) == [b"3.1"]


def test_a_batch_before_the_last_one_is_refused_by_all_tasks(
    batch: Batch, bootstrap: str, topic: str
) -> None:
    batch.attempt("first", [0], batch_id=2)
    batch.attempt("second", [1], batch_id=4)
    for task in range(3):
        with pytest.raises(StaleCheckpoint, match=r"batch 3, but .* up to batch 4"):
            batch.attempt("third", [task])
    assert committed_values(bootstrap, topic) == [b"2.0", b"4.1"]


def test_markers_that_are_gone_are_missed(bootstrap: str, topic: str, options: SinkOptions) -> None:
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


def test_the_markers_of_a_query_are_looked_at_once_a_run(options: SinkOptions) -> None:
    asked: list[str] = []

    def read(options: SinkOptions, query: str) -> dict[int, Marker]:
        asked.append(query)
        return {0: Marker(3, 1, "before")}

    earlier = FirstBatchMarkers(read)
    found = [
        earlier.of(options, Unit(MarkerKey("q", task), batch_id, f"attempt-{batch_id}", run))
        for run, batch_id, task in [("r", 3, 0), ("r", 3, 1), ("r", 4, 0), ("r", 5, 1), ("s", 5, 0)]
    ]
    assert [one is None for one in found] == [False, False, True, True, False]
    assert asked == ["q", "q"]
