"""The marker transaction step by step, with a producer that only notes what it is asked for."""

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
from odradek.spark.sink.replays import FirstBatchMarkers, Unit
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
    """State of the brokers, and all requests in order."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.marker = Marker(0)
        self.markers: dict[int, Marker] = {0: Marker(4)}
        self.last_transaction: str | None = None
        self.failing: dict[str, BaseException] = {}
        self.kept = ProducerPool()
        self.earlier = FirstBatchMarkers(lambda options, query: self.markers)

    def note(self, what: str) -> None:
        self.journal.append(what)
        if what.split(maxsplit=1)[0] in self.failing:
            raise self.failing.pop(what.split(maxsplit=1)[0])

    def write(
        self, batch_id: int, *batches: Any, options: SinkOptions = OPTIONS, run: str = "r"
    ) -> TaskCommitMessage:
        self.journal.clear()
        unit = Unit(KEY, batch_id, "mine", run)
        return write_exactly_once(options, unit, rows(*batches), self.kept, self.earlier)


class NotedProducer:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.offset = 10
        self.is_quick = False
        """True if deliveries are done before the next are sent."""

    def init_transactions(self) -> None:
        self.stage.note("init")

    def begin_transaction(self) -> None:
        self.stage.note("begin")

    def send_arrow(self, batch: Any, topic: str | None) -> Any:
        self.stage.note(f"send {batch.num_rows} to {topic}")
        self.offset += batch.num_rows
        placed = [("out", 0, self.offset - batch.num_rows, batch.num_rows)]
        return SimpleNamespace(
            done=lambda: self.is_quick, result=lambda: batch.num_rows, placed=lambda: placed
        )

    def flush(self) -> None:
        self.stage.note("flush")

    def send_offsets_to_transaction(self, offsets: dict[Any, Any], group: str) -> None:
        [(place, committed)] = offsets.items()
        assert (place.topic, place.partition, group) == ("__pipeline_markers", 0, "__sink.q.3")
        self.stage.note(f"marker {committed.offset} {committed.metadata}".strip())

    def commit_transaction(self) -> None:
        self.stage.note("commit")

    def abort_transaction(self) -> None:
        self.stage.note("abort")

    def close(self, timeout_s: float) -> None:
        self.stage.note("close")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()

    def read_marker(options: SinkOptions, key: MarkerKey) -> Marker:
        made.note("read marker")
        return made.marker

    def described(options: SinkOptions, key: MarkerKey) -> Any:
        made.note("describe")
        state = made.last_transaction
        found = SimpleNamespace(state=state, transactional_id="t", producer_id=8, producer_epoch=2)
        return None if state is None else found

    topics = SimpleNamespace(ensure=lambda options, afresh: made.note("ensure"))
    monkeypatch.setattr(producer_pool, "Producer", lambda settings: NotedProducer(made))
    monkeypatch.setattr(transactional_writer, "read_marker", read_marker)
    monkeypatch.setattr(transactional_writer, "describe_transaction", described)
    monkeypatch.setattr(transactional_writer, "marker_topics", topics)
    return made


def rows(*batches: Any) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        if isinstance(batch, BaseException):
            raise batch
        if isinstance(batch, pyarrow.RecordBatch):
            yield batch
            continue
        yield pyarrow.record_batch({"value": pyarrow.array(batch, pyarrow.string())})


def test_others_are_fenced_before_the_marker_is_read_and_rows_are_committed_with_theirs(stage: Stage) -> None:
    written = stage.write(4, ["a", "b"], [], ["c"])
    sent = ["begin", "send 2 to out", "send 1 to out", "flush", "marker 5 rows=3 attempt=mine", "commit"]
    assert stage.journal == [*TAKEN_OVER, *sent]
    assert written == TaskCommitMessage(3, (WrittenRange("out", 0, 10, 12, 3),))


def test_a_batch_that_is_written_already_is_read_to_its_end_and_not_written(stage: Stage) -> None:
    stage.marker = Marker(5, 3, "another")
    written = stage.write(4, ["a", "b"], ["c"])
    assert stage.journal == TAKEN_OVER
    assert written == TaskCommitMessage(3, is_skipped=True)


def test_a_batch_that_is_written_with_other_rows_is_refused(stage: Stage) -> None:
    stage.marker = Marker(5, 2, "another")
    with pytest.raises(ReplayMismatch, match="comes again with 3 rows"):
        stage.write(4, ["a", "b"], ["c"])


def test_a_task_without_rows_asks_nobody(stage: Stage) -> None:
    assert stage.write(4, [], []) == TaskCommitMessage(0)
    assert stage.journal == []


def test_a_producer_that_is_kept_proves_that_the_id_is_its_own_before_the_first_row(stage: Stage) -> None:
    stage.write(4, ["a"])
    stage.write(5, ["b"])
    marker = "marker 6 rows=1 attempt=mine"
    assert stage.journal == ["begin", "marker 6", "send 1 to out", "flush", marker, "commit"]


@pytest.mark.parametrize("step", ["begin", "marker"])
def test_one_whose_id_was_taken_over_is_given_up_for_another(stage: Stage, step: str) -> None:
    stage.write(4, ["a"])
    stage.failing[step] = RequestRefused("fenced")
    stage.marker = Marker(5, 1, "mine")
    stage.write(5, ["b"])
    assert stage.journal[stage.journal.index("close") + 1 :][:4] == [*TAKEN_OVER, "begin"]
    assert stage.journal[-1] == "commit"


def test_one_that_wrote_the_batch_itself_asks_the_brokers_again(stage: Stage) -> None:
    stage.write(4, ["a"])
    stage.marker = Marker(5, 1, "mine")
    assert stage.write(4, ["a"]).is_skipped
    assert stage.journal == ["close", *TAKEN_OVER]


@pytest.mark.parametrize("step", ["send", "flush", "marker", "commit"])
def test_what_fails_on_the_way_is_aborted_at_once_and_its_producer_not_used_again(
    stage: Stage, step: str
) -> None:
    stage.failing[step] = RequestRefused("no")
    with pytest.raises(SinkFailed):
        stage.write(4, ["a"])
    assert stage.journal[-2:] == ["abort", "close"]
    stage.write(4, ["a"])
    assert stage.journal[:3] == TAKEN_OVER


def test_rows_that_fail_abort_too(stage: Stage) -> None:
    with pytest.raises(ArithmeticError):
        stage.write(4, ["a"], ArithmeticError("the query itself"))
    assert stage.journal[-2:] == ["abort", "close"]


def test_a_fenced_producer_has_nothing_to_abort(stage: Stage) -> None:
    stage.failing["commit"] = FatalProducerError("fenced")
    with pytest.raises(SinkFailed):
        stage.write(4, ["a"])
    assert stage.journal[-2:] == ["commit", "close"]


@pytest.mark.parametrize("step", ["init", "ensure", "read"])
def test_a_takeover_that_fails_leaves_no_producer_behind(stage: Stage, step: str) -> None:
    stage.failing[step] = RequestRefused("no")
    with pytest.raises(SinkFailed):
        stage.write(4, ["a"])
    assert stage.journal[-1] == "close"


@pytest.mark.parametrize("state", ["CompleteCommit", "PrepareCommit"])
def test_markers_that_are_gone_are_missed_before_the_id_is_taken_over(stage: Stage, state: str) -> None:
    stage.markers, stage.last_transaction = {}, state
    with pytest.raises(MarkersLost):
        stage.write(4, ["a"])
    assert stage.journal == ["describe", "read marker"]


@pytest.mark.parametrize("state", [None, "CompleteAbort", "Ongoing"])
def test_without_a_committed_transaction_no_marker_is_missed(stage: Stage, state: str | None) -> None:
    stage.markers, stage.last_transaction = {}, state
    assert stage.write(4, ["a"]).rows_count == 1


def test_missing_markers_are_asked_for_only_where_there_are_none_and_that_is_wanted(stage: Stage) -> None:
    stage.last_transaction = "CompleteCommit"
    stage.write(4, ["a"])
    assert "describe" not in stage.journal
    stage.markers, stage.kept = {}, ProducerPool()
    writes = SinkOptions(OPTIONS.producer_settings, "out", missing_markers=MissingMarkers.WRITE)
    stage.write(5, ["a"], options=writes, run="another")
    assert "describe" not in stage.journal


def test_a_batch_that_was_written_in_part_is_left_to_the_driver_to_commit(stage: Stage) -> None:
    stage.markers, stage.last_transaction = {0: Marker(5, 1, "another")}, "Ongoing"
    written = stage.write(4, ["a"])
    marker = "marker 5 rows=1 attempt=mine"
    assert stage.journal[3:] == ["begin", "send 1 to out", "flush", "describe", marker, "close"]
    assert written.replay is not None
    assert written.replay.transaction == ("t", 8, 2)


def test_a_part_that_is_there_already_is_told_to_the_driver(stage: Stage) -> None:
    stage.markers = {0: Marker(5, 1, "another"), 3: Marker(5, 2, "another")}
    for count, problem in ((2, None), (1, "comes again with 1 rows")):
        stage.marker, stage.kept = Marker(5, 2, "another"), ProducerPool()
        written = stage.write(4, ["a"] * count, run=f"run {count}")
        assert written.replay is not None
        assert written.is_skipped
        assert (written.replay.problem or "").startswith("batch 4") is (problem is not None)


# The writers that Spark is given.


class Task:
    """As much of a task as writers ask for."""

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name.rpartition(".")[2])

    def partitionId(self) -> int:
        return 3


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    found: list[Unit] = []

    def note(options: SinkOptions, unit: Unit, iterator: Any) -> TaskCommitMessage:
        found.append(unit)
        return TaskCommitMessage(7)

    monkeypatch.setattr(transactional_writer, "write_exactly_once", note)
    monkeypatch.setattr(transactional_writer, "check_exactly_once_settings", lambda *_, **__: None)
    return found


def test_a_micro_batch_is_known_by_query_partition_and_number(
    units: list[Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(queryId="q", batchId="12", id="run"))
    stream = TransactionalStreamWriter(OPTIONS)
    assert stream.write(rows(["a"])) == TaskCommitMessage(7)
    assert units == [Unit(MarkerKey("q", 3), 12, stream.attempt, "run")]


@pytest.mark.parametrize("properties", [{"queryId": "q"}, {"batchId": "12"}, {}])
def test_a_spark_that_does_not_tell_them_is_refused(
    units: list[Unit], monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(**properties))
    with pytest.raises(ExactlyOnceUnsupported, match="neither query nor batch"):
        TransactionalStreamWriter(OPTIONS).write(rows(["a"]))
    assert units == []


def test_a_batch_write_is_known_by_its_sink_id(units: list[Unit], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", Task)
    batch = TransactionalBatchWriter(SinkOptions(OPTIONS.producer_settings, "out", sink_id="load"))
    assert batch.write(rows(["a"])) == TaskCommitMessage(7)
    assert units == [Unit(MarkerKey("load", 3), 0, batch.attempt, batch.attempt)]


def test_the_plain_writer_gives_up_a_producer_whose_rows_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, forgotten = Stage(), []
    producer = NotedProducer(stage)
    monkeypatch.setattr(writer, "producer_of", lambda settings: producer)
    monkeypatch.setattr(writer, "forget", forgotten.append)
    written = writer.write_at_least_once(OPTIONS, rows(["a", "b"], ["c"]))
    assert written == TaskCommitMessage(3, (WrittenRange("out", 0, 10, 12, 3),))
    producer.is_quick = True
    written = writer.write_at_least_once(OPTIONS, rows(["a", "b"], ["c"]))
    assert written == TaskCommitMessage(3, (WrittenRange("out", 0, 13, 15, 3),))
    assert forgotten == []
    stage.failing["flush"] = RequestRefused("no")
    with pytest.raises(SinkFailed):
        writer.write_at_least_once(OPTIONS, rows(["a"]))
    assert forgotten == [producer]


SCHEMA = StructType([StructField("value", StringType())])
GIVEN = {"kafka.bootstrap.servers": "nowhere:1", "topic": "out"}
ONCE = {**GIVEN, "guarantee": "exactly_once"}


def test_the_guarantee_decides_which_writer_spark_is_given() -> None:
    assert isinstance(writer.batch_writer(GIVEN, SCHEMA, False), writer.BatchWriter)
    assert isinstance(writer.stream_writer(GIVEN, SCHEMA, False), writer.StreamWriter)
    assert isinstance(writer.stream_writer(ONCE, SCHEMA, True), TransactionalStreamWriter)
    assert isinstance(
        writer.batch_writer({**ONCE, "sinkId": "load"}, SCHEMA, False), TransactionalBatchWriter
    )


def test_what_cannot_be_written_is_refused_before_anything_is() -> None:
    with pytest.raises(ConfigError, match="overwritten"):
        writer.batch_writer(GIVEN, SCHEMA, True)
    for make in (writer.batch_writer, writer.stream_writer):
        with pytest.raises(Exception, match="value"):
            make(GIVEN, StructType([StructField("other", StringType())]), False)


def test_plain_writers_give_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "write_at_least_once", lambda options, iterator: TaskCommitMessage(7))
    for made in (writer.BatchWriter(OPTIONS), writer.StreamWriter(OPTIONS)):
        assert made.write(rows(["a"])) == TaskCommitMessage(7)


def test_the_driver_ends_or_abandons_what_tasks_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(transactional_writer, "commit_replay", lambda *given: ended.append(given))
    monkeypatch.setattr(transactional_writer, "abort_replay", lambda *given: ended.append(given))
    stream, batch = TransactionalStreamWriter(OPTIONS), TransactionalBatchWriter(OPTIONS)
    stream.commit(["a"], 12)
    batch.commit(["b"])
    stream.abort(["c"], 12)
    batch.abort(["d"])
    assert ended == [(OPTIONS, ["a"], 12), (OPTIONS, ["b"], 0), (OPTIONS, ["c"]), (OPTIONS, ["d"])]


def test_a_row_that_cannot_be_sent_is_named_by_its_number_in_the_task(stage: Stage) -> None:
    to_topics = [
        pyarrow.record_batch({"value": ["v"] * len(names), "topic": pyarrow.array(names, pyarrow.string())})
        for names in (["a", "b", "c"], [None])
    ]
    with pytest.raises(Exception, match="row 3 of this task"):
        stage.write(4, *to_topics, options=SinkOptions(OPTIONS.producer_settings, None))


def test_a_replay_where_brokers_cannot_describe_transactions_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactional_writer, "describe_transaction", lambda *_: None)
    with pytest.raises(ReplayMismatch, match="describe transactions"):
        transactional_writer._opened(OPTIONS, KEY)
