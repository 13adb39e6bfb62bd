"""The stream reader with a simulated Spark engine that is killed and restarted at any point."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from odradek import ClientError, OffsetAndMetadata, OffsetSpec, TopicPartition
from odradek.spark.options.offsets import OffsetLimit, Offsets
from odradek.spark.options.source_options import QueryType, SourceOptions, read_source_options
from odradek.spark.source.data_loss import DataLoss, LogOffsets
from odradek.spark.source.offset_reader import OffsetReader, QueryPartitions
from odradek.spark.source.offset_resolution import offset_specs, partition_limits, resolve_offsets
from odradek.spark.source.schema import source_schema
from odradek.spark.source.stream_reader import TopicStreamReader

A0 = TopicPartition("a", 0)


@dataclass
class Cluster(OffsetReader):
    """In-memory cluster: partitions with log start and log end offsets."""

    logs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    group: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    commits: int = 0
    group_fails: bool = False

    def write(self, partition: TopicPartition, count: int) -> None:
        start, end = self.logs.get(partition, (0, 0))
        self.ids.setdefault(partition.topic, f"id of {partition.topic}")
        self.logs[partition] = (start, end + count)

    def recreate(self, partition: TopicPartition, count: int) -> None:
        self.ids[partition.topic] += ", recreated"
        self.logs[partition] = (0, count)

    def fetch_partitions(self) -> QueryPartitions:
        return QueryPartitions(tuple(sorted(self.logs)), dict(self.ids), ())

    def fetch_log_offsets(self, expected: Mapping[TopicPartition, int]) -> LogOffsets:
        return LogOffsets(
            dict(self.ids),
            {partition: log[0] for partition, log in self.logs.items()},
            {partition: log[1] for partition, log in self.logs.items()},
        )

    def fetch_offsets(
        self, offset_limit: OffsetLimit, partitions: Iterable[TopicPartition], *, late_is_error: bool = False
    ) -> Offsets:
        limits = partition_limits(offset_limit, partitions, self.group)
        listed_offsets = {
            partition: self.logs[partition][spec == OffsetSpec.LATEST]
            for partition, spec in offset_specs(limits).items()
        }
        return resolve_offsets(limits, listed_offsets, {}, late_is_error=late_is_error)

    def fetch_committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        if self.group_fails:
            raise ClientError("group unavailable")
        return dict(self.group)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.group_fails:
            raise ClientError("group unavailable")
        self.commits += 1
        self.group |= offsets


def source_options(**more: str) -> SourceOptions:
    raw_options = {"kafka.bootstrap.servers": "nowhere:9092", "subscribePattern": ".*", **more}
    return read_source_options(raw_options, QueryType.STREAM)


class Engine:
    """Calls a stream reader as Spark does; ``checkpoint`` outlives the engine."""

    def __init__(self, cluster: Cluster, options: SourceOptions, checkpoint: Checkpoint) -> None:
        self.reader = TopicStreamReader(options, source_schema(include_headers=False), cluster)
        self._checkpoint = checkpoint

    def plan_next(self) -> bool:
        """Write the next batch to the offset log; return False if there is nothing new."""
        log = self._checkpoint
        if len(log.offsets) > log.finished_count:
            return True
        start = log.offsets[-1] if log.offsets else to_json(self.reader.initialOffset())
        limit = self.reader.getDefaultReadLimit()
        end = to_json(self.reader.latestOffset(json.loads(start), limit))
        if log.offsets and end == start:
            return False
        log.offsets.append(end)
        return True

    def run_planned(self) -> list[tuple[TopicPartition, int]]:
        """Return the records of the planned batch."""
        log = self._checkpoint
        index = log.finished_count
        start = log.offsets[index - 1] if index else to_json(self.reader.initialOffset())
        planned: Sequence[Any] = self.reader.partitions(json.loads(start), json.loads(log.offsets[index]))
        return [
            (TopicPartition(range_.topic, range_.partition), offset)
            for task in planned
            for range_ in task.ranges
            for offset in range(range_.start, range_.end)
        ]

    def finish(self) -> None:
        rows = self.run_planned()
        self._checkpoint.rows += rows
        self._checkpoint.finished_count += 1

    def run(self) -> None:
        """Run batches until there is nothing new, as with trigger AvailableNow."""
        for _ in range(100):
            if not self.plan_next():
                return
            self.finish()
        raise AssertionError("the query does not end")


def to_json(offsets: Any) -> str:
    return json.dumps(offsets)


@dataclass
class Checkpoint:
    offsets: list[str] = field(default_factory=list)
    finished_count: int = 0
    rows: list[tuple[TopicPartition, int]] = field(default_factory=list)

    def offsets_of(self, partition: TopicPartition) -> list[int]:
        return [offset for row_partition, offset in self.rows if row_partition == partition]


PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2))


class Killed(RuleBasedStateMachine):
    """Wherever the driver is killed, every record from the initial offset on is read once, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.write(A0, 5)
        self.checkpoint = Checkpoint()
        self.options = source_options(**{"maxOffsetsPerTrigger": "4", "kafka.group.id": "readers"})
        self.start()

    def start(self) -> None:
        self.engine = Engine(self.cluster, self.options, self.checkpoint)

    @rule(partition=PARTITIONS, count=st.integers(0, 9))
    def write(self, partition: TopicPartition, count: int) -> None:
        self.cluster.write(partition, count)

    @precondition(lambda self: not self.checkpoint.offsets)
    @rule()
    def request_initial_offset(self) -> None:
        self.engine.reader.initialOffset()

    @rule()
    def plan(self) -> None:
        self.engine.plan_next()

    @precondition(lambda self: len(self.checkpoint.offsets) > self.checkpoint.finished_count)
    @rule()
    def finish(self) -> None:
        before = self.engine.run_planned()
        assert Engine(self.cluster, self.options, self.checkpoint).run_planned() == before
        self.engine.finish()

    @rule(available_now=st.booleans())
    def restart(self, available_now: bool) -> None:
        self.start()
        if available_now:
            self.engine.reader.prepareForTriggerAvailableNow()
            ends = self.cluster.fetch_log_offsets({}).ends
            self.engine.run()
            finished = json.loads(self.checkpoint.offsets[-1])
            assert all(
                finished[partition.topic][str(partition.partition)] >= ends[partition] for partition in ends
            )
            self.start()

    @invariant()
    def every_record_is_read_once(self) -> None:
        for partition in self.cluster.logs:
            offsets = self.checkpoint.offsets_of(partition)
            assert offsets == list(range(offsets[0] if offsets else 0, len(offsets) + (offsets or [0])[0]))
        initial = json.loads(self.checkpoint.offsets[0]) if self.checkpoint.offsets else {}
        for topic, partitions in initial.items():
            for number, offset in partitions.items():
                offsets = self.checkpoint.offsets_of(TopicPartition(topic, int(number)))
                assert not offsets or offsets[0] == offset


TestKilled = Killed.TestCase
TestKilled.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.write(A0, 10)
    return cluster


def engine_of(cluster: Cluster, checkpoint: Checkpoint, **more: str) -> Engine:
    return Engine(cluster, source_options(**more), checkpoint)


def test_first_batch_is_empty_and_records_the_initial_offsets(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint)
    assert engine.reader.initialOffset() == {"a": {"0": 10}}
    cluster.write(A0, 5)
    engine.plan_next()
    assert checkpoint.offsets == ['{"a": {"0": 10}}']
    # Killed before the batch is committed: a later initial offset is ignored.
    engine_of(cluster, checkpoint).run()
    assert checkpoint.offsets_of(A0) == list(range(10, 15))


def test_available_now_run_continues_after_the_empty_first_batch(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, startingOffsets="earliest")
    engine.reader.prepareForTriggerAvailableNow()
    cluster.write(A0, 90)
    engine.run()
    assert checkpoint.offsets_of(A0) == list(range(10))


def test_available_now_run_ends_if_started_beyond_its_target(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint)
    engine.reader.prepareForTriggerAvailableNow()
    cluster.write(A0, 5)
    engine.run()
    assert checkpoint.offsets == ['{"a": {"0": 15}}']


@pytest.mark.parametrize(
    ("more", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
    ],
)
def test_default_read_limit(cluster: Cluster, more: dict[str, str], limit: Any) -> None:
    assert engine_of(cluster, Checkpoint(), **more).reader.getDefaultReadLimit() == limit


def test_stream_reader_pickles_before_and_after_use(cluster: Cluster) -> None:
    reader = engine_of(cluster, Checkpoint()).reader
    pickle.dumps(reader)
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    pickle.dumps(reader)
    pickle.dumps(TopicStreamReader(source_options(), source_schema(include_headers=True)))


def test_report_latest_offset_returns_the_last_known_ends(cluster: Cluster) -> None:
    reader = engine_of(cluster, Checkpoint(), maxOffsetsPerTrigger="1", startingOffsets="earliest").reader
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    cluster.write(A0, 5)
    assert reader.reportLatestOffset() == {"a": {"0": 10}}


GROUP = {"startingOffsets": "earliest", "kafka.group.id": "readers"}


def test_group_offsets_are_committed_for_completed_batches_only(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, **GROUP)
    engine.plan_next()
    assert cluster.group[A0].offset == 0
    engine.finish()
    engine.plan_next()
    assert cluster.group[A0].offset == 0
    engine.finish()
    engine.run()
    assert cluster.group[A0].offset == 10
    commits = cluster.commits
    engine.run()
    assert cluster.commits == commits


def test_failed_group_commits_do_not_fail_the_query(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.group_fails = True
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint, **GROUP).run()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert len(checkpoint.rows) == 10
    assert "group unavailable" in caplog.text


@pytest.mark.parametrize("count", [3, 10, 30])
@pytest.mark.parametrize("restarts", [True, False])
def test_recreated_topic_is_detected_whatever_its_length(
    cluster: Cluster, count: int, restarts: bool
) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, **GROUP)
    engine.run()
    cluster.recreate(A0, count)
    if restarts:
        engine = engine_of(cluster, checkpoint, **GROUP)
    with pytest.raises(DataLoss, match="was deleted and recreated"):
        engine.run()
    # At every attempt, until the user accepts the loss.
    with pytest.raises(DataLoss, match="was deleted and recreated"):
        engine_of(cluster, checkpoint, **GROUP).run()
    engine_of(cluster, checkpoint, **GROUP, failOnDataLoss="false").run()
    assert checkpoint.offsets_of(A0) == [*range(10), *range(count)]
    cluster.write(A0, 2)
    engine_of(cluster, checkpoint, **GROUP).run()
    assert checkpoint.offsets_of(A0) == [*range(10), *range(count + 2)]


def test_recreated_topic_is_detected_by_expected_topic_ids(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    stored_ids = {"startingOffsets": "earliest", "expectedTopicIds": json.dumps(cluster.ids)}
    engine_of(cluster, checkpoint, **stored_ids).run()
    engine_of(cluster, checkpoint, **stored_ids).run()
    cluster.recreate(A0, 50)
    with pytest.raises(DataLoss, match="was deleted and recreated"):
        engine_of(cluster, checkpoint, **stored_ids).run()


def test_missing_group_offset_logs_a_warning(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert caplog.text == ""
    # Brokers delete the offsets of a deleted topic.
    cluster.group.clear()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert "group_offsets_missing partitions=a-0" in caplog.text


def test_first_batch_committed_by_the_sink_is_not_planned_again(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint).plan_next()
    cluster.write(A0, 5)
    engine = engine_of(cluster, checkpoint)
    engine.reader.prepareForTriggerAvailableNow()
    # Spark requests the initial offset, but not the partitions if the sink has the batch.
    engine.reader.initialOffset()
    checkpoint.finished_count = 1
    engine.run()
    assert checkpoint.offsets_of(A0) == list(range(10, 15))


def test_replayed_batch_is_not_read_from_a_recreated_topic(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, **GROUP)
    engine.plan_next()
    engine.finish()
    engine.plan_next()
    cluster.recreate(A0, 50)
    with pytest.raises(DataLoss, match="was deleted and recreated"):
        engine_of(cluster, checkpoint, **GROUP).run()


def test_new_query_ignores_topic_ids_of_an_earlier_query(cluster: Cluster) -> None:
    engine_of(cluster, Checkpoint(), **GROUP).run()
    cluster.recreate(A0, 5)
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert checkpoint.offsets_of(A0) == list(range(5))
    engine_of(cluster, checkpoint, **GROUP).run()
    # Unless it starts at the group's offsets.
    cluster.recreate(A0, 20)
    with pytest.raises(DataLoss, match="recreated"):
        engine_of(cluster, Checkpoint(), **{**GROUP, "startingOffsets": "group"}).run()


def test_restarted_query_without_group_detects_a_shorter_log(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    plain = {"startingOffsets": "earliest"}
    engine_of(cluster, checkpoint, **plain).run()
    cluster.recreate(A0, 4)
    with pytest.raises(DataLoss, match="the log ends at 4, below the query's offset 10"):
        engine_of(cluster, checkpoint, **plain).run()
    engine_of(cluster, checkpoint, **plain, failOnDataLoss="false").run()
    assert checkpoint.offsets_of(A0) == [*range(10), *range(4)]


def test_small_batch_waits_in_a_stream_but_not_with_available_now(cluster: Cluster) -> None:
    more = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "100"}
    checkpoint = Checkpoint()
    stream = engine_of(cluster, checkpoint, **more)
    stream.run()
    assert len(checkpoint.rows) == 10
    cluster.write(A0, 5)
    stream.run()
    assert len(checkpoint.rows) == 10
    run = engine_of(cluster, checkpoint, **more)
    run.reader.prepareForTriggerAvailableNow()
    run.run()
    assert len(checkpoint.rows) == 15
