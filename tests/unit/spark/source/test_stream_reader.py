"""The stream reader under an engine like Spark's: started, killed and started again at any moment."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from odradek import ClientError, OffsetAndMetadata, OffsetSpec, TopicPartition
from odradek.spark.options.offsets import Offsets, Position
from odradek.spark.options.source_options import SourceOptions, Use, read_source_options
from odradek.spark.source.data_loss import DataLoss, Sight
from odradek.spark.source.offset_reader import Layout, OffsetReader
from odradek.spark.source.offset_resolution import questions, settled, spots_of
from odradek.spark.source.schema import source_schema
from odradek.spark.source.stream_reader import TopicStreamReader

A0 = TopicPartition("a", 0)


@dataclass
class Cluster(OffsetReader):
    """A cluster in memory: partitions with a start and an end of their log."""

    logs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    group: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    commits: int = 0
    group_fails: bool = False

    def write(self, partition: TopicPartition, count: int) -> None:
        start, end = self.logs.get(partition, (0, 0))
        self.ids.setdefault(partition.topic, f"id of {partition.topic}")
        self.logs[partition] = (start, end + count)

    def remake(self, partition: TopicPartition, count: int) -> None:
        self.ids[partition.topic] += ", the next"
        self.logs[partition] = (0, count)

    def layout(self) -> Layout:
        return Layout(tuple(sorted(self.logs)), dict(self.ids), ())

    def look(self, expected: Mapping[TopicPartition, int]) -> Sight:
        return Sight(
            dict(self.ids),
            {one: log[0] for one, log in self.logs.items()},
            {one: log[1] for one, log in self.logs.items()},
        )

    def offsets_of(
        self, position: Position, partitions: Iterable[TopicPartition], *, late_is_error: bool = False
    ) -> Offsets:
        spots = spots_of(position, partitions, self.group)
        answers = {one: self.logs[one][asked == OffsetSpec.LATEST] for one, asked in questions(spots).items()}
        return settled(spots, answers, {}, late_is_error=late_is_error)

    def committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        if self.group_fails:
            raise ClientError("no group today")
        return dict(self.group)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.group_fails:
            raise ClientError("no group today")
        self.commits += 1
        self.group |= offsets


def source_options(**more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "nowhere:9092", "subscribePattern": ".*", **more}
    return read_source_options(given, Use.STREAM)


class Engine:
    """What Spark does with a stream reader, as far as offsets are concerned; ``checkpoint`` outlives it."""

    def __init__(self, cluster: Cluster, options: SourceOptions, checkpoint: Checkpoint) -> None:
        self.reader = TopicStreamReader(options, source_schema(include_headers=False), cluster)
        self._checkpoint = checkpoint

    def plan_next(self) -> bool:
        """Write the next batch into the log of offsets, if there is one; False if there is nothing new."""
        log = self._checkpoint
        if len(log.offsets) > log.finished_count:
            return True
        start = log.offsets[-1] if log.offsets else through_json(self.reader.initialOffset())
        limit = self.reader.getDefaultReadLimit()
        end = through_json(self.reader.latestOffset(json.loads(start), limit))
        if log.offsets and end == start:
            return False
        log.offsets.append(end)
        return True

    def run_planned(self) -> list[tuple[TopicPartition, int]]:
        """The records of the batch that is planned and not finished."""
        log = self._checkpoint
        index = log.finished_count
        start = log.offsets[index - 1] if index else through_json(self.reader.initialOffset())
        planned = self.reader.partitions(json.loads(start), json.loads(log.offsets[index]))
        return [
            (TopicPartition(one.topic, one.partition), offset)
            for task in planned
            for one in task.ranges
            for offset in range(one.start, one.end)
        ]

    def finish(self) -> None:
        rows = self.run_planned()
        self._checkpoint.rows += rows
        self._checkpoint.finished_count += 1

    def run(self) -> None:
        """Batches until there is nothing new, as a run over what is there does."""
        for _ in range(100):
            if not self.plan_next():
                return
            self.finish()
        raise AssertionError("there is always another batch")


def through_json(offsets: Any) -> str:
    return json.dumps(offsets)


@dataclass
class Checkpoint:
    offsets: list[str] = field(default_factory=list)
    finished_count: int = 0
    rows: list[tuple[TopicPartition, int]] = field(default_factory=list)

    def read_of(self, partition: TopicPartition) -> list[int]:
        return [offset for one, offset in self.rows if one == partition]


PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2))


class Killed(RuleBasedStateMachine):
    """Whenever the driver is killed, every record from the pinned beginning on is read once, in order."""

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
    def ask_for_the_beginning(self) -> None:
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
            ends = self.cluster.look({}).ends
            self.engine.run()
            finished = json.loads(self.checkpoint.offsets[-1])
            assert all(finished[one.topic][str(one.partition)] >= ends[one] for one in ends)
            self.start()

    @invariant()
    def every_record_is_read_once(self) -> None:
        for one in self.cluster.logs:
            offsets = self.checkpoint.read_of(one)
            assert offsets == list(range(offsets[0] if offsets else 0, len(offsets) + (offsets or [0])[0]))
        begun = json.loads(self.checkpoint.offsets[0]) if self.checkpoint.offsets else {}
        for topic, partitions in begun.items():
            for number, offset in partitions.items():
                offsets = self.checkpoint.read_of(TopicPartition(topic, int(number)))
                assert not offsets or offsets[0] == offset


TestKilled = Killed.TestCase
TestKilled.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.write(A0, 10)
    return made


def engine_of(cluster: Cluster, checkpoint: Checkpoint, **more: str) -> Engine:
    return Engine(cluster, source_options(**more), checkpoint)


def test_the_first_batch_is_empty_and_pins_the_beginning(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint)
    assert engine.reader.initialOffset() == {"a": {"0": 10}}
    cluster.write(A0, 5)
    engine.plan_next()
    assert checkpoint.offsets == ['{"a": {"0": 10}}']
    # Killed before the batch is finished: a later beginning is not believed.
    engine_of(cluster, checkpoint).run()
    assert checkpoint.read_of(A0) == list(range(10, 15))


def test_a_run_over_what_is_there_does_not_end_with_the_first_batch(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, startingOffsets="earliest")
    engine.reader.prepareForTriggerAvailableNow()
    cluster.write(A0, 90)
    engine.run()
    assert checkpoint.read_of(A0) == list(range(10))


def test_a_run_ends_though_its_query_began_beyond_its_target(cluster: Cluster) -> None:
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
def test_spark_is_told_the_limit_and_gives_it_back(
    cluster: Cluster, more: dict[str, str], limit: Any
) -> None:
    assert engine_of(cluster, Checkpoint(), **more).reader.getDefaultReadLimit() == limit


def test_a_reader_pickles_before_and_after_it_was_used(cluster: Cluster) -> None:
    reader = engine_of(cluster, Checkpoint()).reader
    pickle.dumps(reader)
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    pickle.dumps(reader)
    pickle.dumps(TopicStreamReader(source_options(), source_schema(include_headers=True)))


def test_the_ends_of_logs_are_reported_as_they_were_last_seen(cluster: Cluster) -> None:
    reader = engine_of(cluster, Checkpoint(), maxOffsetsPerTrigger="1", startingOffsets="earliest").reader
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    cluster.write(A0, 5)
    assert reader.reportLatestOffset() == {"a": {"0": 10}}


GROUP = {"startingOffsets": "earliest", "kafka.group.id": "readers"}


def test_the_group_follows_what_is_finished_and_only_then(cluster: Cluster) -> None:
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


def test_a_group_that_cannot_be_reached_stops_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.group_fails = True
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint, **GROUP).run()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert len(checkpoint.rows) == 10
    assert "no group today" in caplog.text


@pytest.mark.parametrize("count", [3, 10, 30])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_topic_made_again_is_noticed_however_many_records_it_has(
    cluster: Cluster, count: int, restarts: bool
) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, **GROUP)
    engine.run()
    cluster.remake(A0, count)
    if restarts:
        engine = engine_of(cluster, checkpoint, **GROUP)
    with pytest.raises(DataLoss, match="was deleted and made again"):
        engine.run()
    # However often it is tried, until the user gives the former records up.
    with pytest.raises(DataLoss, match="was deleted and made again"):
        engine_of(cluster, checkpoint, **GROUP).run()
    engine_of(cluster, checkpoint, **GROUP, failOnDataLoss="false").run()
    assert checkpoint.read_of(A0) == [*range(10), *range(count)]
    cluster.write(A0, 2)
    engine_of(cluster, checkpoint, **GROUP).run()
    assert checkpoint.read_of(A0) == [*range(10), *range(count + 2)]


def test_a_topic_made_again_is_noticed_by_the_id_that_somebody_kept(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    kept = {"startingOffsets": "earliest", "expectedTopicIds": json.dumps(cluster.ids)}
    engine_of(cluster, checkpoint, **kept).run()
    engine_of(cluster, checkpoint, **kept).run()
    cluster.remake(A0, 50)
    with pytest.raises(DataLoss, match="was deleted and made again"):
        engine_of(cluster, checkpoint, **kept).run()


def test_an_offset_that_the_group_has_lost_is_worth_a_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert caplog.text == ""
    # What a broker does with offsets of a topic that it deletes.
    cluster.group.clear()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert "group_offsets_missing partitions=a-0" in caplog.text


def test_a_first_batch_that_a_sink_knows_already_is_not_planned_again(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint).plan_next()
    cluster.write(A0, 5)
    engine = engine_of(cluster, checkpoint)
    engine.reader.prepareForTriggerAvailableNow()
    # The beginning is asked for, but a sink that has the batch does not ask for its partitions.
    engine.reader.initialOffset()
    checkpoint.finished_count = 1
    engine.run()
    assert checkpoint.read_of(A0) == list(range(10, 15))


def test_a_batch_of_an_earlier_run_is_not_read_from_another_topic(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    engine = engine_of(cluster, checkpoint, **GROUP)
    engine.plan_next()
    engine.finish()
    engine.plan_next()
    cluster.remake(A0, 50)
    with pytest.raises(DataLoss, match="was deleted and made again"):
        engine_of(cluster, checkpoint, **GROUP).run()


def test_a_new_query_with_the_group_of_an_old_one_does_not_mind_topics_made_again(cluster: Cluster) -> None:
    engine_of(cluster, Checkpoint(), **GROUP).run()
    cluster.remake(A0, 5)
    checkpoint = Checkpoint()
    engine_of(cluster, checkpoint, **GROUP).run()
    assert checkpoint.read_of(A0) == list(range(5))
    engine_of(cluster, checkpoint, **GROUP).run()
    # Unless it goes on where the group stands.
    cluster.remake(A0, 20)
    with pytest.raises(DataLoss, match="made again"):
        engine_of(cluster, Checkpoint(), **{**GROUP, "startingOffsets": "group"}).run()


def test_without_a_group_a_restarted_query_still_sees_a_shorter_log(cluster: Cluster) -> None:
    checkpoint = Checkpoint()
    plain = {"startingOffsets": "earliest"}
    engine_of(cluster, checkpoint, **plain).run()
    cluster.remake(A0, 4)
    with pytest.raises(DataLoss, match="the log ends at 4, below offset 10"):
        engine_of(cluster, checkpoint, **plain).run()
    engine_of(cluster, checkpoint, **plain, failOnDataLoss="false").run()
    assert checkpoint.read_of(A0) == [*range(10), *range(4)]


def test_a_small_batch_waits_in_a_stream_and_not_in_a_run_that_ends(cluster: Cluster) -> None:
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
