"""The driver process, which runs one query on Spark: ``python -m odradek.pipelines.run.driver FILE …``.

The supervisor (``supervisor.py``) starts it and reads its reports: one JSON object per line, on a separate
pipe, because a console sink prints to stdout. Lines on stdin are commands: ``go`` once the lease is held,
``stop`` to end after the current batch. At the end of stdin the supervisor is gone, and the driver exits.
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
from odradek.pipelines.query.dead_letters import DeadLetterRatio, TooManyDeadLetters
from odradek.pipelines.run.failures import Failure, explain
from odradek.pipelines.run.session import build_session
from odradek.pipelines.spec.reader import Spec, read_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final[Any] = 0.2
"""Spark accepts fractions of a second, though its type hint is int."""
IDLE_POLLS: Final = 25
"""Polls between two idle reports."""
LAST_BATCH_POLLS: Final = 25
"""Polls to wait for the current batch to end."""
JAVA_CAUSES_MAX: Final = 10
GO, STOP = "go", "stop"
REPLAY_FILES: Final = "replays"


class SupervisorCommands:
    """Commands of the supervisor."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.stop = threading.Event()

    def listen(self) -> None:
        """Read commands until the supervisor is gone; then exit at once, and Java with this process."""
        for line in sys.stdin:
            command = line.strip()
            if command == STOP:
                self.stop.set()
            if command in (GO, STOP):
                self.go.set()
        os._exit(1)

    def stop_on(self, number: int, frame: object) -> None:
        """Handle a signal."""
        self.stop.set()
        self.go.set()


class Report:
    """Reports to the supervisor."""

    def __init__(self, descriptor: int) -> None:
        self._out = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)

    def send(self, event: str, **fields: object) -> None:
        self._out.write(json.dumps({"event": event, **fields}) + "\n")
        self._out.flush()

    def close(self) -> None:
        self._out.close()


class QueryMonitor:
    """Reports the progress of a query, and stops it on command."""

    def __init__(
        self, query: StreamingQuery, spec: Spec, report: Report, commands: SupervisorCommands
    ) -> None:
        self._query = query
        self._spec = spec
        self._report = report
        self._orders = commands
        self._reported: tuple[int, str] | None = None
        self._polls_since_report = 0
        self._dead_letter_ratio = (
            None if spec.dead_letter is None else DeadLetterRatio(spec.dead_letter.max_ratio)
        )

    def wait(self) -> str:
        """Wait for the end of the query; return ``once`` or ``stopped``, or raise its error."""
        try:
            while not self._query.awaitTermination(POLL_S):
                self._report_progress()
                self._report_idle()
                if self._orders.stop.is_set():
                    self._stop_after_batch()
                    self._report_progress()
                    return "stopped"
        except TooManyDeadLetters:
            self._query.stop()
            raise
        self._report_progress()
        return "once"

    def _stop_after_batch(self) -> None:
        for _ in range(LAST_BATCH_POLLS):
            if not self._query.status["isTriggerActive"] or self._query.awaitTermination(POLL_S):
                break
        self._query.stop()

    def _report_progress(self) -> None:
        for progress in self._new_progress():
            self._reported = (progress["batchId"], progress["timestamp"])
            self._polls_since_report = 0
            self._report.send("progress", progress=progress)
            if topic_ids.has_moved_backwards(progress):
                topic_ids.update_topic_ids(self._spec, Checkpoint(self._spec.checkpoint))
            if self._dead_letter_ratio is not None:
                self._dead_letter_ratio.add_progress(progress)

    def _new_progress(self) -> list[Mapping[str, Any]]:
        """Return unreported progress; the last hundred reports are only read if one was missed."""
        last = self._query.lastProgress
        if last is None or (last.batchId, last.timestamp) == self._reported:
            return []
        if self._reported is not None and last.batchId == self._reported[0] + 1:
            return [json.loads(last.json)]
        recent = [json.loads(progress.json) for progress in self._query.recentProgress]
        if self._reported is None:
            return recent
        return [
            progress for progress in recent if (progress["batchId"], progress["timestamp"]) > self._reported
        ]

    def _report_idle(self) -> None:
        self._polls_since_report += 1
        if self._polls_since_report % IDLE_POLLS:
            return
        status = self._query.status
        if not status["isDataAvailable"] and not status["isTriggerActive"]:
            self._report.send("idle")


def outgoing_frame(
    spark: SparkSession, spec: Spec, *, streaming: bool, window: source_frames.Window | None = None
) -> DataFrame:
    """Return the DataFrame of source, transform and sink."""
    source = source_frames.source_frames(spark, spec, streaming=streaming, window=window)
    return sinks.sink_frame(transforms.apply_transform(source.rows, spec), source, spec)


def run_query(spec: Spec, options: argparse.Namespace, report: Report, commands: SupervisorCommands) -> None:
    """Start Spark and the query, and wait until it ends."""
    spark = build_session(spec, options.master)
    for number in (signal.SIGINT, signal.SIGTERM):
        # After the start, because Spark installs its own handlers.
        signal.signal(number, commands.stop_on)
    commands.go.wait()
    if commands.stop.is_set():
        report.send("ended", reason="stopped")
    elif options.replay is not None:
        report.send("replayed", rows=_replay(spark, spec, options.replay), skipped=False)
        report.send("ended", reason="once")
    else:
        topic_ids.record_topic_ids(spec, Checkpoint(spec.checkpoint))
        query = sinks.start_query(outgoing_frame(spark, spec, streaming=True), spec, once=options.once)
        jvm: Any = spark.sparkContext._jvm
        report.send(
            "started",
            query_id=str(query.id),
            run_id=str(query.runId),
            pid=os.getpid(),
            jvm_pid=int(jvm.java.lang.ProcessHandle.current().pid()),
        )
        report.send("ended", reason=QueryMonitor(query, spec, report, commands).wait())
    spark.stop()


def run_dry(spec: Spec, options: argparse.Namespace, report: Report) -> None:
    """Plan the query, or preview some rows, without writing."""
    from odradek.pipelines.run.dry_run import dry_run_session
    from odradek.pipelines.run.plan_check import planned
    from odradek.pipelines.run.preview import make_preview

    # Timestamps are shown in UTC, as sinks write them.
    os.environ["TZ"] = "UTC"
    time.tzset()
    with dry_run_session(spec, options.master) as (spark, dry_spec):
        if options.plan:
            report.send("planned", checks=[check._asdict() for check in planned(spark, dry_spec)])
        else:
            report.send("previewed", **make_preview(spark, dry_spec, options.preview)._asdict())


def _replay(spark: SparkSession, spec: Spec, replay_id: str) -> int:
    """Write a window of the source again; return the number of rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    text = Checkpoint(spec.checkpoint).read_sidecar(f"{REPLAY_FILES}/{replay_id}.json")
    if text is None:
        raise FileNotFoundError(f"{spec.checkpoint}/odradek/{REPLAY_FILES}/{replay_id}.json")
    window = json.loads(text)
    rows = Observation("odradek_replay")
    frame = outgoing_frame(spark, spec, streaming=False, window=(window["start"], window["end"]))
    sinks.write_batch(frame.observe(rows, F.count(F.lit(1)).alias("rows")), spec, replay_id)
    return int(rows.get["rows"])


def failure_of(failed: BaseException) -> Failure:
    return explain(type(failed).__name__, "\n".join([str(failed), *java_causes(failed)]))


def java_causes(failed: BaseException) -> list[str]:
    """Return the causes of a Java error, which its message often omits."""
    cause: Any = getattr(failed, "_origin", None)
    causes: list[str] = []
    try:
        while cause is not None and len(causes) < JAVA_CAUSES_MAX:
            cause = cause.getCause()
            if cause is not None:
                causes.append(f"Caused by: {cause.toString()}")
    except Exception:  # noqa: BLE001 - Java may be gone; return the causes so far
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
    options = parser.parse_args(arguments)
    report, commands = Report(options.report_fd), SupervisorCommands()
    threading.Thread(target=commands.listen, name="commands", daemon=True).start()
    try:
        spec = read_spec(options.file)
        if options.plan or options.preview is not None:
            run_dry(spec, options, report)
        else:
            run_query(spec, options, report, commands)
    except Exception as failed:  # noqa: BLE001 - process boundary: every error is reported to the supervisor
        failure = failure_of(failed)
        report.send("failed", message=failure.message, retry=failure.retry)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
