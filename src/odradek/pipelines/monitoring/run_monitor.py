"""What a run's supervisor does with the words of its driver: they become its standing, and that is told on.

A driver writes one JSON object a line. Whatever it writes, a listener never raises: a line that makes no
sense is told as it is. Only the newest standing is kept, so memory does not grow with the run.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.pipelines.monitoring.display import Display, display_for
from odradek.pipelines.monitoring.lag import OldestRecordReader
from odradek.pipelines.monitoring.metrics import LOOPBACK, MetricsServer
from odradek.pipelines.monitoring.progress import (
    Offsets,
    Progress,
    counted,
    late_text,
    read_progress,
    seconds_text,
)
from odradek.pipelines.monitoring.run_status import RunState, RunStatus, to_json

if TYPE_CHECKING:
    from odradek.pipelines.spec.reader import Spec
    from odradek.ports.clock import Clock

STATUS: Final = "status.json"
AGE_EVERY_MS: Final = 5000
"""The age of the oldest record that waits is read at most so often, and costs a fetch for each partition."""
LINE_CHARACTERS_MAX: Final = 500

OldestWaiting = Callable[[Offsets, Offsets], "int | None"]
"""Offsets done and newest offsets: when the oldest record between them was written, or None."""


class Pinned(Protocol):
    """Where the status file goes."""

    def write_sidecar(self, name: str, text: str) -> None: ...


class RunMonitor:
    """One run as its supervisor sees it."""

    def __init__(
        self,
        standing: RunStatus,
        clock: Clock,
        display: Display,
        *,
        record: Pinned | None = None,
        metrics: MetricsServer | None = None,
        oldest_waiting: OldestWaiting | None = None,
    ) -> None:
        self.standing = standing
        self.batches_since_start = 0
        """Batches the present driver has done: what a restart counts as progress."""
        self.rows_replayed: int | None = None
        self._clock = clock
        self._display = display
        self._record = record
        self._metrics = metrics
        self._oldest_waiting = oldest_waiting
        self._age_read_ms: int | None = None
        self._record_fails = False
        self._is_idle_told = False
        self._driver_started_ms = 0

    @property
    def last_failure(self) -> str | None:
        return None if self.standing.failure is None else self.standing.failure.message

    def hear(self, line: str) -> str | None:
        """One line of the driver; gives the kind of event it told of."""
        try:
            event = json.loads(line)
            kind = event["event"]
            handler = self._HANDLERS.get(kind)
        except (ValueError, TypeError, KeyError):
            self._tell_junk(line)
            return None
        if handler is None:
            self._tell_junk(line)
            return None
        try:
            handler(self, event)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._tell_junk(line)
            return None
        return str(kind)

    def say(self, words: str) -> None:
        """Something the supervisor has to tell people."""
        self._display.say(words)
        self._display.event("told", words=words)

    def driver_started(self, pid: int) -> None:
        self.batches_since_start = 0
        self._is_idle_told = False
        self._driver_started_ms = self._clock.monotonic_ms()
        self._now(self.standing.started(self._clock.wall_ms(), pid))
        self._display.doing("starting Spark …")
        self._display.event("driver_started", pid=pid)

    def driver_ended(self, returncode: int, will_retry_in_s: float | None) -> None:
        """The driver is gone: to be started again after a while, or for good."""
        if will_retry_in_s is not None:
            self._now(self.standing.restarting(self._clock.wall_ms()))
            self._display.say(
                f"the driver ended with {returncode}; started again in {seconds_text(will_retry_in_s)}"
            )
        self._display.event("driver_ended", returncode=returncode, retry_in_s=will_retry_in_s)

    def failed(self, message: str) -> None:
        """Something went wrong that the driver could not tell itself, as when it was killed."""
        self._now(self.standing.failed(message, self._clock.wall_ms()))
        self._display.say(message)
        self._display.event("failed", message=message)

    def close(self, outcome: RunState) -> None:
        """The run is over."""
        self._now(self.standing.over(outcome, self._clock.wall_ms()))
        self._display.close()
        self._display.say(summary(self.standing, self.rows_replayed))
        self._display.event("over", **to_json(self.standing))

    def _now(self, standing: RunStatus) -> None:
        self.standing = standing
        if self._metrics is not None:
            self._metrics.show(standing)
        if self._record is not None:
            self._write(self._record, standing)

    def _write(self, record: Pinned, standing: RunStatus) -> None:
        """A status that cannot be written is told once and never ends a run."""
        try:
            record.write_sidecar(STATUS, json.dumps(to_json(standing), indent=1))
            self._record_fails = False
        except OSError as failed:
            if not self._record_fails:
                self._display.say(f"the status file cannot be written: {failed}")
            self._record_fails = True

    def _tell_junk(self, line: str) -> None:
        words = line.strip()[:LINE_CHARACTERS_MAX]
        if words:
            self._display.say(f"driver: {words}")

    def _started(self, event: Mapping[str, Any]) -> None:
        self._now(self.standing.running(self._clock.wall_ms()))
        took_s = (self._clock.monotonic_ms() - self._driver_started_ms) / 1000
        self._display.say(f"Spark is ready after {seconds_text(took_s)}; {self.standing.name} is running")
        self._display.event("started", query_id=event.get("query_id"), run_id=event.get("run_id"))

    def _progress(self, event: Mapping[str, Any]) -> None:
        progress = self._aged(read_progress(event["progress"]))
        self.batches_since_start += 1
        self._now(self.standing.progressed(progress, self._clock.wall_ms()))
        self._display.batch(progress)

    def _idle(self, event: Mapping[str, Any]) -> None:
        del event
        self._now(self.standing.idle(self._clock.wall_ms()))
        if not self._is_idle_told:
            self._display.doing("all records are read; waiting for new ones")
            self._is_idle_told = True

    def _failed(self, event: Mapping[str, Any]) -> None:
        self.failed(str(event["message"]))

    def _replayed(self, event: Mapping[str, Any]) -> None:
        self.rows_replayed = int(event["rows"])
        self._display.event("replayed", rows=self.rows_replayed, skipped=bool(event.get("skipped")))

    def _ended(self, event: Mapping[str, Any]) -> None:
        self._display.event("ended", reason=event.get("reason"))

    def _aged(self, progress: Progress) -> Progress:
        """The batch with the age of the oldest record it left; between two readings the last age stands."""
        if progress.lag_rows is None or progress.end is None or progress.latest is None:
            return progress
        if progress.lag_rows == 0 or self._oldest_waiting is None:
            return progress.waiting_longest(0.0 if progress.lag_rows == 0 else None)
        now_ms = self._clock.monotonic_ms()
        if self._age_read_ms is not None and now_ms - self._age_read_ms < AGE_EVERY_MS:
            last = self.standing.last
            return progress.waiting_longest(None if last is None else last.lag_s)
        self._age_read_ms = now_ms
        since_ms = self._oldest_waiting(progress.end, progress.latest)
        age_s = None if since_ms is None else max(0, self._clock.wall_ms() - since_ms) / 1000
        return progress.waiting_longest(age_s)

    _HANDLERS: Final = {
        "started": _started,
        "progress": _progress,
        "idle": _idle,
        "failed": _failed,
        "replayed": _replayed,
        "ended": _ended,
    }


def summary(standing: RunStatus, rows_replayed: int | None = None) -> str:
    """What a run did, in one line."""
    done = [counted(standing.batch_count, "batch"), counted(standing.row_count, "row")]
    words = [
        f"{standing.name} {standing.state}",
        *(done if rows_replayed is None else [f"{counted(rows_replayed, 'row')} replayed"]),
        seconds_text((standing.updated_ms - standing.started_ms) / 1000),
    ]
    if standing.restart_count:
        words.append(counted(standing.restart_count, "restart"))
    if standing.dead_letter_count:
        words.append(counted(standing.dead_letter_count, "dead letter"))
    if standing.late_dropped_count:
        words.append(late_text(standing.late_dropped_count))
    return " · ".join(words)


def oldest_in_topics(waiting: OldestRecordReader) -> OldestWaiting:
    """Reads the oldest record that waits from the topics themselves; a broker that is away gives no age."""

    def read(end: Offsets, latest: Offsets) -> int | None:
        newest = _flat(latest)
        behind = {one: offset for one, offset in _flat(end).items() if offset < newest.get(one, 0)}
        try:
            found = waiting.since_ms(behind, newest)
        except ClientError:
            return None
        return min((one for one in found.values() if one is not None), default=None)

    return read


def _flat(offsets: Offsets) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number): offset
        for topic, of_topic in offsets.items()
        for number, offset in of_topic.items()
    }


@contextmanager
def watching(
    spec: Spec,
    clock: Clock,
    *,
    once: bool = False,
    json: bool = False,
    metrics_port: int | None = None,
    metrics_host: str = LOOPBACK,
    record: Pinned | None = None,
    before: RunStatus | None = None,
) -> Iterator[RunMonitor]:
    """A listener with all it tells to: terminal or JSON lines, the status file, metrics if wanted.

    ``before`` is the run before this one, whose counts go on.
    """
    now_ms = clock.wall_ms()
    standing = RunStatus(spec.name, os.getpid(), platform.node(), now_ms, now_ms, once)
    if before is not None:
        standing = before.next_run(os.getpid(), platform.node(), now_ms, once=once)
    port = spec.observe.metrics_port if metrics_port is None else metrics_port
    with ExitStack() as opened:
        display = display_for(as_json=json)
        opened.callback(display.close)
        metrics = None if port is None else MetricsServer(standing, port, metrics_host)
        if metrics is not None:
            opened.callback(metrics.close)
            display.say(f"metrics at {metrics.address}")
        waiting = None
        if spec.source.type == "topic":
            waiting = oldest_in_topics(opened.enter_context(OldestRecordReader(spec, clock)))
        yield RunMonitor(standing, clock, display, record=record, metrics=metrics, oldest_waiting=waiting)
