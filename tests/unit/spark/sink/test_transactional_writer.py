"""Steps of the marker transaction, with a producer that records its calls."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from odradek.model.client_errors import FatalProducerError, RequestRefused
from odradek.model.errors import ConfigError
from odradek.spark.options.sink_options import MissingMarkers, SinkOptions
from odradek.spark.sink import producer_pool, transactional_writer, writer
from odradek.spark.sink.errors import SinkFailed
from odradek.spark.sink.exactly_once_settings import ExactlyOnceUnsupported
from odradek.spark.sink.markers import Marker, MarkerKey, MarkersLost, ReplayMismatch
from odradek.spark.sink.producer_pool import ProducerPool
from odradek.spark.sink.replays import FirstBatchMarkers, WriteUnit
from odradek.spark.sink.row_sender import TaskCommitMessage, WrittenRange
from odradek.spark.sink.transactional_writer import (
    TransactionalBatchWriter,
    TransactionalStreamWriter,
    write_exactly_once,
)

KEY = MarkerKey("q", 3)
OPTIONS = SinkOptions({"bootstrap.servers": "nowhere:1"}, "out")
TAKEN_OVER = ["init", "ensure", "read marker"]


class Stage:
    """State of the brokers, and the calls in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.marker = Marker(0)
        self.markers: dict[int, Marker] = {0: Marker(4)}
        self.last_transaction: str | None = None
        self.failing: dict[str, BaseException] = {}
        self.pool = ProducerPool()
        self.first_markers = FirstBatchMarkers(lambda options, query: self.markers)

    def record(self, what: str) -> None:
        self.calls.append(what)
        if what.split(maxsplit=1)[0] in self.failing:
            raise self.failing.pop(what.split(maxsplit=1)[0])

    def write(
        self, batch_id: int, *batches: Any, options: SinkOptions = OPTIONS, run: str = "r"
    ) -> TaskCommitMessage:
        self.calls.clear()
        unit = WriteUnit(KEY, batch_id, "mine", run)
        return write_exactly_once(options, unit, rows(*batches), self.pool, self.first_markers)


class RecordingProducer:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.offset = 10
        self.is_quick = False
        """True if deliveries are done before the next are sent."""

    def init_transactions(self) -> None:
        self.stage.record("init")

    def begin_transaction(self) -> None:
        self.stage.record("begin")

    def send_arrow(self, batch: Any, topic: str | None) -> Any:
        self.stage.record(f"send {batch.num_rows} to {topic}")
        self.offset += batch.num_rows
        written_offsets = [("out", 0, self.offset - batch.num_rows, batch.num_rows)]
        return SimpleNamespace(
            done=lambda: self.is_quick, result=lambda: batch.num_rows, offset_ranges=lambda: written_offsets
        )

    def flush(self) -> None:
        self.stage.record("flush")

    def send_offsets_to_transaction(self, offsets: dict[Any, Any], group: str) -> None:
        [(partition, committed)] = offsets.items()
        assert (partition.topic, partition.partition, group) == ("__pipeline_markers", 0, "__sink.q.3")
        self.stage.record(f"marker {committed.offset} {committed.metadata}".strip())

    def commit_transaction(self) -> None:
        self.stage.record("commit")

    def abort_transaction(self) -> None:
        self.stage.record("abort")

    def close(self, timeout_s: float) -> None:
        self.stage.record("close")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage()

    def read_marker(options: SinkOptions, key: MarkerKey) -> Marker:
        stage.record("read marker")
        return stage.marker

    def described(options: SinkOptions, key: MarkerKey) -> Any:
        stage.record("describe")
        state = stage.last_transaction
        transaction = SimpleNamespace(state=state, transactional_id="t", producer_id=8, producer_epoch=2)
        return None if state is None else transaction

    topics = SimpleNamespace(ensure=lambda options, recheck: stage.record("ensure"))
    monkeypatch.setattr(producer_pool, "Producer", lambda settings: RecordingProducer(stage))
    monkeypatch.setattr(transactional_writer, "read_marker", read_marker)
    monkeypatch.setattr(transactional_writer, "describe_transaction", described)
    monkeypatch.setattr(transactional_writer, "marker_topics", topics)
    return stage


def rows(*batches: Any) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        if isinstance(batch, BaseException):
            raise batch
        if isinstance(batch, pyarrow.RecordBatch):
            yield batch
            continue
        yield pyarrow.record_batch({"value": pyarrow.array(batch, pyarrow.string())})


def test_takeover_fences_before_reading_the_marker_and_commits_rows_with_it(stage: Stage) -> None:
    written = stage.write(4, ["a", "b"], [], ["c"])
    sent = ["begin", "send 2 to out", "send 1 to out", "flush", "marker 5 rows=3 attempt=mine", "commit"]
    assert stage.calls == [*TAKEN_OVER, *sent]
    assert written == TaskCommitMessage(3, (WrittenRange("out", 0, 10, 12, 3),))


def test_written_batch_is_consumed_and_skipped(stage: Stage) -> None:
    stage.marker = Marker(5, 3, "another")
    written = stage.write(4, ["a", "b"], ["c"])
    assert stage.calls == TAKEN_OVER
    assert written == TaskCommitMessage(3, is_skipped=True)


def test_replay_with_another_row_count_raises_replay_mismatch(stage: Stage) -> None:
    stage.marker = Marker(5, 2, "another")
    with pytest.raises(ReplayMismatch, match="is replayed with 3 rows"):
        stage.write(4, ["a", "b"], ["c"])


def test_task_without_rows_sends_no_request(stage: Stage) -> None:
    assert stage.write(4, [], []) == TaskCommitMessage(0)
    assert stage.calls == []


def test_pooled_producer_sends_the_marker_before_the_first_row(stage: Stage) -> None:
    stage.write(4, ["a"])
    stage.write(5, ["b"])
    marker = "marker 6 rows=1 attempt=mine"
    assert stage.calls == ["begin", "marker 6", "send 1 to out", "flush", marker, "commit"]


@pytest.mark.parametrize("step", ["begin", "marker"])
def test_fenced_pooled_producer_is_replaced(stage: Stage, step: str) -> None:
    stage.write(4, ["a"])
    stage.failing[step] = RequestRefused("fenced")
    stage.marker = Marker(5, 1, "mine")
    stage.write(5, ["b"])
    assert stage.calls[stage.calls.index("close") + 1 :][:4] == [*TAKEN_OVER, "begin"]
    assert stage.calls[-1] == "commit"


def test_pooled_producer_of_a_replayed_batch_is_replaced(stage: Stage) -> None:
    stage.write(4, ["a"])
    stage.marker = Marker(5, 1, "mine")
    assert stage.write(4, ["a"]).is_skipped
    assert stage.calls == ["close", *TAKEN_OVER]


@pytest.mark.parametrize("step", ["send", "flush", "marker", "commit"])
def test_failed_transaction_is_aborted_and_its_producer_closed(stage: Stage, step: str) -> None:
    stage.failing[step] = RequestRefused("no")
    with pytest.raises(SinkFailed):
        stage.write(4, ["a"])
    assert stage.calls[-2:] == ["abort", "close"]
    stage.write(4, ["a"])
    assert stage.calls[:3] == TAKEN_OVER


def test_failing_input_rows_abort_the_transaction(stage: Stage) -> None:
    with pytest.raises(ArithmeticError):
        stage.write(4, ["a"], ArithmeticError("the query itself"))
    assert stage.calls[-2:] == ["abort", "close"]


def test_fenced_producer_does_not_abort(stage: Stage) -> None:
    stage.failing["commit"] = FatalProducerError("fenced")
    with pytest.raises(SinkFailed):
        stage.write(4, ["a"])
    assert stage.calls[-2:] == ["commit", "close"]


@pytest.mark.parametrize("step", ["init", "ensure", "read"])
def test_failed_takeover_closes_its_producer(stage: Stage, step: str) -> None:
    stage.failing[step] = RequestRefused("no")
    with pytest.raises(SinkFailed):
        stage.write(4, ["a"])
    assert stage.calls[-1] == "close"


@pytest.mark.parametrize("state", ["CompleteCommit", "PrepareCommit"])
def test_lost_markers_are_detected_before_the_takeover(stage: Stage, state: str) -> None:
    stage.markers, stage.last_transaction = {}, state
    with pytest.raises(MarkersLost):
        stage.write(4, ["a"])
    assert stage.calls == ["describe", "read marker"]


@pytest.mark.parametrize("state", [None, "CompleteAbort", "Ongoing"])
def test_markers_are_not_lost_without_a_committed_transaction(stage: Stage, state: str | None) -> None:
    stage.markers, stage.last_transaction = {}, state
    assert stage.write(4, ["a"]).rows_count == 1


def test_transaction_is_described_only_without_markers_and_if_configured(stage: Stage) -> None:
    stage.last_transaction = "CompleteCommit"
    stage.write(4, ["a"])
    assert "describe" not in stage.calls
    stage.markers, stage.pool = {}, ProducerPool()
    writes = SinkOptions(OPTIONS.producer_settings, "out", missing_markers=MissingMarkers.WRITE)
    stage.write(5, ["a"], options=writes, run="another")
    assert "describe" not in stage.calls


def test_partly_written_batch_is_left_open_for_the_driver(stage: Stage) -> None:
    stage.markers, stage.last_transaction = {0: Marker(5, 1, "another")}, "Ongoing"
    written = stage.write(4, ["a"])
    marker = "marker 5 rows=1 attempt=mine"
    assert stage.calls[3:] == ["begin", "send 1 to out", "flush", "describe", marker, "close"]
    assert written.replay is not None
    assert written.replay.transaction == ("t", 8, 2)


def test_skipped_part_of_a_replay_is_reported_to_the_driver(stage: Stage) -> None:
    stage.markers = {0: Marker(5, 1, "another"), 3: Marker(5, 2, "another")}
    for count, problem in ((2, None), (1, "is replayed with 1 rows")):
        stage.marker, stage.pool = Marker(5, 2, "another"), ProducerPool()
        written = stage.write(4, ["a"] * count, run=f"run {count}")
        assert written.replay is not None
        assert written.is_skipped
        assert (written.replay.problem or "").startswith("batch 4") is (problem is not None)


# Writers.


class Task:
    """The part of a TaskContext that writers use."""

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name.rpartition(".")[2])

    def partitionId(self) -> int:
        return 3


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> list[WriteUnit]:
    written_units: list[WriteUnit] = []

    def record(options: SinkOptions, unit: WriteUnit, iterator: Any) -> TaskCommitMessage:
        written_units.append(unit)
        return TaskCommitMessage(7)

    monkeypatch.setattr(transactional_writer, "write_exactly_once", record)
    monkeypatch.setattr(transactional_writer, "check_exactly_once_settings", lambda *_, **__: None)
    return written_units


def test_micro_batch_is_identified_by_query_partition_and_batch_id(
    units: list[WriteUnit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(queryId="q", batchId="12", id="run"))
    stream = TransactionalStreamWriter(OPTIONS)
    assert stream.write(rows(["a"])) == TaskCommitMessage(7)
    assert units == [WriteUnit(MarkerKey("q", 3), 12, stream.attempt, "run")]


@pytest.mark.parametrize("properties", [{"queryId": "q"}, {"batchId": "12"}, {}])
def test_missing_query_or_batch_id_is_rejected(
    units: list[WriteUnit], monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(**properties))
    with pytest.raises(ExactlyOnceUnsupported, match="no query id or batch id"):
        TransactionalStreamWriter(OPTIONS).write(rows(["a"]))
    assert units == []


def test_batch_write_is_identified_by_its_sink_id(
    units: list[WriteUnit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", Task)
    batch = TransactionalBatchWriter(SinkOptions(OPTIONS.producer_settings, "out", sink_id="load"))
    assert batch.write(rows(["a"])) == TaskCommitMessage(7)
    assert units == [WriteUnit(MarkerKey("load", 3), 0, batch.attempt, batch.attempt)]


def test_at_least_once_writer_discards_a_failed_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    discarded: list[Any] = []
    producer = RecordingProducer(stage)
    monkeypatch.setattr(writer, "get_producer", lambda settings: producer)
    monkeypatch.setattr(writer, "discard", discarded.append)
    written = writer.write_at_least_once(OPTIONS, rows(["a", "b"], ["c"]))
    assert written == TaskCommitMessage(3, (WrittenRange("out", 0, 10, 12, 3),))
    producer.is_quick = True
    written = writer.write_at_least_once(OPTIONS, rows(["a", "b"], ["c"]))
    assert written == TaskCommitMessage(3, (WrittenRange("out", 0, 13, 15, 3),))
    assert discarded == []
    stage.failing["flush"] = RequestRefused("no")
    with pytest.raises(SinkFailed):
        writer.write_at_least_once(OPTIONS, rows(["a"]))
    assert discarded == [producer]


SCHEMA = StructType([StructField("value", StringType())])
RAW_OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "topic": "out"}
ONCE = {**RAW_OPTIONS, "guarantee": "exactly_once"}


def test_guarantee_selects_the_writer() -> None:
    assert isinstance(writer.batch_writer(RAW_OPTIONS, SCHEMA, False), writer.BatchWriter)
    assert isinstance(writer.stream_writer(RAW_OPTIONS, SCHEMA, False), writer.StreamWriter)
    assert isinstance(writer.stream_writer(ONCE, SCHEMA, True), TransactionalStreamWriter)
    assert isinstance(
        writer.batch_writer({**ONCE, "sinkId": "load"}, SCHEMA, False), TransactionalBatchWriter
    )


def test_invalid_mode_and_columns_are_rejected() -> None:
    with pytest.raises(ConfigError, match="overwritten"):
        writer.batch_writer(RAW_OPTIONS, SCHEMA, True)
    for make in (writer.batch_writer, writer.stream_writer):
        with pytest.raises(Exception, match="value"):
            make(RAW_OPTIONS, StructType([StructField("other", StringType())]), False)


def test_at_least_once_writers_return_the_commit_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "write_at_least_once", lambda options, iterator: TaskCommitMessage(7))
    for stage in (writer.BatchWriter(OPTIONS), writer.StreamWriter(OPTIONS)):
        assert stage.write(rows(["a"])) == TaskCommitMessage(7)


def test_driver_commits_or_aborts_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(transactional_writer, "commit_replay", lambda *arguments: ended.append(arguments))
    monkeypatch.setattr(transactional_writer, "abort_replay", lambda *arguments: ended.append(arguments))
    stream, batch = TransactionalStreamWriter(OPTIONS), TransactionalBatchWriter(OPTIONS)
    stream.commit(["a"], 12)
    batch.commit(["b"])
    stream.abort(["c"], 12)
    batch.abort(["d"])
    assert ended == [(OPTIONS, ["a"], 12), (OPTIONS, ["b"], 0), (OPTIONS, ["c"]), (OPTIONS, ["d"])]


def test_invalid_row_is_named_by_its_number_in_the_task(stage: Stage) -> None:
    to_topics = [
        pyarrow.record_batch({"value": ["v"] * len(names), "topic": pyarrow.array(names, pyarrow.string())})
        for names in (["a", "b", "c"], [None])
    ]
    with pytest.raises(Exception, match="row 3 of this task"):
        stage.write(4, *to_topics, options=SinkOptions(OPTIONS.producer_settings, None))


def test_replay_requires_describe_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactional_writer, "describe_transaction", lambda *_: None)
    with pytest.raises(ReplayMismatch, match="DescribeTransactions"):
        transactional_writer._open_transaction(OPTIONS, KEY)
