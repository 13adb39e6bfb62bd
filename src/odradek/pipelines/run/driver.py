"""The process that holds Spark and runs one query: ``python -m odradek.pipelines.run.driver FILE …``.

The supervisor (``runner.py``) starts it and reads what it reports: one JSON object a line, on a pipe of its
own, as a console sink prints to stdout. Lines on stdin are orders: ``go`` once the lease is held, ``stop`` to
end after the running batch. When stdin ends the supervisor is gone, and so must be this process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.checkpoint import topic_ids
from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.query import sinks, source_frames, transforms
from odradek.pipelines.query.dead_letters import DeadLetterShare, TooManyDeadLetters
from odradek.pipelines.run.failures import Failure, explain
from odradek.pipelines.run.session import build_session
from odradek.pipelines.spec.reader import Spec, read_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final[Any] = 0.2
"""Spark takes fractions of a second, though it does not say so."""
IDLE_POLLS: Final = 25
"""How many looks pass between two reports that nothing is new."""
LAST_BATCH_POLLS: Final = 25
"""How many looks a running batch is given to end by itself."""
JAVA_CAUSES_MAX: Final = 10
GO, STOP = "go", "stop"
REPLAY_FILES: Final = "replays"


class SupervisorCommands:
    """What the supervisor wants, as far as it has said so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.stop = threading.Event()

    def listen(self) -> None:
        """Read orders until the supervisor is gone; then this process ends at once, and Java with it."""
        for line in sys.stdin:
            word = line.strip()
            if word == STOP:
                self.stop.set()
            if word in (GO, STOP):
                self.go.set()
        os._exit(1)

    def stop_on(self, number: int, frame: object) -> None:
        """A handler of signals."""
        self.stop.set()
        self.go.set()


class Report:
    """The pipe to the supervisor."""

    def __init__(self, descriptor: int) -> None:
        self._out = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)

    def tell(self, event: str, **fields: Any) -> None:
        self._out.write(json.dumps({"event": event, **fields}) + "\n")
        self._out.flush()

    def close(self) -> None:
        self._out.close()


class QueryMonitor:
    """One running query: its progress is told, and it is stopped when that is wanted."""

    def __init__(self, query: StreamingQuery, spec: Spec, report: Report, orders: SupervisorCommands) -> None:
        self._query = query
        self._spec = spec
        self._report = report
        self._orders = orders
        self._told: tuple[int, str] | None = None
        self._looks_since_told = 0
        self._share = None if spec.dead_letter is None else DeadLetterShare(spec.dead_letter.max_ratio)

    def until_over(self) -> str:
        """Why the query ended: ``once`` or ``stopped``. Raises what it failed with."""
        try:
            while not self._query.awaitTermination(POLL_S):
                self._tell_progress()
                self._tell_idle()
                if self._orders.stop.is_set():
                    self._stop_after_batch()
                    self._tell_progress()
                    return "stopped"
        except TooManyDeadLetters:
            self._query.stop()
            raise
        self._tell_progress()
        return "once"

    def _stop_after_batch(self) -> None:
        for _ in range(LAST_BATCH_POLLS):
            if not self._query.status["isTriggerActive"] or self._query.awaitTermination(POLL_S):
                break
        self._query.stop()

    def _tell_progress(self) -> None:
        for progress in self._news():
            self._told = (progress["batchId"], progress["timestamp"])
            self._looks_since_told = 0
            self._report.tell("progress", progress=progress)
            if topic_ids.has_gone_back(progress):
                topic_ids.update_topic_ids(self._spec, Checkpoint(self._spec.checkpoint))
            if self._share is not None:
                self._share.hear(progress)

    def _news(self) -> list[Mapping[str, Any]]:
        """Progress that has not been told; the list of the last hundred is only read if one was missed."""
        last = self._query.lastProgress
        if last is None or (last.batchId, last.timestamp) == self._told:
            return []
        if self._told is not None and last.batchId == self._told[0] + 1:
            return [json.loads(last.json)]
        recent = [json.loads(one.json) for one in self._query.recentProgress]
        if self._told is None:
            return recent
        return [one for one in recent if (one["batchId"], one["timestamp"]) > self._told]

    def _tell_idle(self) -> None:
        self._looks_since_told += 1
        if self._looks_since_told % IDLE_POLLS:
            return
        status = self._query.status
        if not status["isDataAvailable"] and not status["isTriggerActive"]:
            self._report.tell("idle")


def outgoing_frame(
    spark: SparkSession, spec: Spec, *, streaming: bool, window: source_frames.Window | None = None
) -> DataFrame:
    """Source, transform and sink's columns in one frame."""
    source = source_frames.source_frames(spark, spec, streaming=streaming, window=window)
    return sinks.outgoing(transforms.transformed(source.rows, spec), source, spec)


def run_query(spec: Spec, given: argparse.Namespace, report: Report, orders: SupervisorCommands) -> None:
    """Start Spark and the query, and stay until it is over."""
    spark = build_session(spec, given.master)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Spark sets a handler of its own when it starts.
        signal.signal(number, orders.stop_on)
    orders.go.wait()
    if orders.stop.is_set():
        report.tell("ended", reason="stopped")
    elif given.replay is not None:
        report.tell("replayed", rows=_replay(spark, spec, given.replay), skipped=False)
        report.tell("ended", reason="once")
    else:
        topic_ids.record_topic_ids(spec, Checkpoint(spec.checkpoint))
        query = sinks.start_query(outgoing_frame(spark, spec, streaming=True), spec, once=given.once)
        jvm: Any = spark.sparkContext._jvm
        report.tell(
            "started",
            query_id=str(query.id),
            run_id=str(query.runId),
            pid=os.getpid(),
            jvm_pid=int(jvm.java.lang.ProcessHandle.current().pid()),
        )
        report.tell("ended", reason=QueryMonitor(query, spec, report, orders).until_over())
    spark.stop()


def run_trial(spec: Spec, given: argparse.Namespace, report: Report) -> None:
    """Plan the query, or show some of its rows, and leave no trace."""
    from odradek.pipelines.run.dry_run import trial_session
    from odradek.pipelines.run.plan_check import planned
    from odradek.pipelines.run.preview import make_preview

    # Times of rows are shown in UTC, as sinks write them.
    os.environ["TZ"] = "UTC"
    time.tzset()
    with trial_session(spec, given.master) as (spark, trial):
        if given.plan:
            report.tell("planned", checks=[one._asdict() for one in planned(spark, trial)])
        else:
            report.tell("previewed", **make_preview(spark, trial, given.preview)._asdict())


def _replay(spark: SparkSession, spec: Spec, replay_id: str) -> int:
    """Write a window of the source again; gives the number of rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    pinned = Checkpoint(spec.checkpoint).read_sidecar(f"{REPLAY_FILES}/{replay_id}.json")
    if pinned is None:
        raise FileNotFoundError(f"{spec.checkpoint}/odradek/{REPLAY_FILES}/{replay_id}.json")
    window = json.loads(pinned)
    rows = Observation("odradek_replay")
    frame = outgoing_frame(spark, spec, streaming=False, window=(window["start"], window["end"]))
    sinks.write_batch(frame.observe(rows, F.count(F.lit(1)).alias("rows")), spec, replay_id)
    return int(rows.get["rows"])


def failure_of(failed: BaseException) -> Failure:
    return explain(type(failed).__name__, "\n".join([str(failed), *java_causes(failed)]))


def java_causes(failed: BaseException) -> list[str]:
    """What an error of Java names as its causes; its own words often leave them out."""
    cause: Any = getattr(failed, "_origin", None)
    causes: list[str] = []
    try:
        while cause is not None and len(causes) < JAVA_CAUSES_MAX:
            cause = cause.getCause()
            if cause is not None:
                causes.append(f"Caused by: {cause.toString()}")
    except Exception:  # noqa: BLE001 - Java may be gone, and then all that can be said was said
        return causes
    return causes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="odradek.pipelines.run.driver")
    parser.add_argument("file", type=Path)
    parser.add_argument("--report-fd", type=int, required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--master")
    parser.add_argument("--replay")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--preview", type=int)
    given = parser.parse_args(arguments)
    report, orders = Report(given.report_fd), SupervisorCommands()
    threading.Thread(target=orders.listen, name="orders", daemon=True).start()
    try:
        spec = read_spec(given.file)
        if given.plan or given.preview is not None:
            run_trial(spec, given, report)
        else:
            run_query(spec, given, report, orders)
    except Exception as failed:  # noqa: BLE001 - the edge of the process: whatever it is, the supervisor is told
        failure = failure_of(failed)
        report.tell("failed", message=failure.message, retry=failure.retry)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
