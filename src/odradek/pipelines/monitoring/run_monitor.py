"""Processing of a driver's reports: they update the run's status, which is shown, stored and measured.

A driver writes one JSON object per line. Whatever it writes, the monitor never raises: an invalid line is
shown unchanged. Only the latest status is kept, so memory is bounded.
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
"""Minimum interval of reading the age of the oldest unread record, which costs a fetch per partition."""
LINE_CHARACTERS_MAX: Final = 500

OldestUnread = Callable[[Offsets, Offsets], "int | None"]
"""Timestamp of the oldest record between the processed and the latest offsets; None if unknown."""


class StatusStore(Protocol):
    """Storage of the status file."""

    def write_sidecar(self, name: str, text: str) -> None: ...


class RunMonitor:
    """Status of one run, updated by the driver's reports."""

    def __init__(
        self,
        status: RunStatus,
        clock: Clock,
        display: Display,
        *,
        store: StatusStore | None = None,
        metrics: MetricsServer | None = None,
        oldest_unread: OldestUnread | None = None,
    ) -> None:
        self.status = status
        self.batches_since_start = 0
        """Batches completed by the current driver, which count as progress for restarts."""
        self.rows_replayed: int | None = None
        self._clock = clock
        self._display = display
        self._store = store
        self._metrics = metrics
        self._oldest_unread = oldest_unread
        self._age_read_ms: int | None = None
        self._store_fails = False
        self._is_idle_shown = False
        self._driver_started_ms = 0

    @property
    def last_failure(self) -> str | None:
        return None if self.status.failure is None else self.status.failure.message

    def handle_line(self, line: str) -> str | None:
        """Process a line of the driver; return the kind of its event."""
        try:
            event = json.loads(line)
            kind = event["event"]
            handler = self._HANDLERS.get(kind)
        except (ValueError, TypeError, KeyError):
            self._show_line(line)
            return None
        if handler is None:
            self._show_line(line)
            return None
        try:
            handler(self, event)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._show_line(line)
            return None
        return str(kind)

    def message(self, text: str) -> None:
        """Show a message of the supervisor."""
        self._display.message(text)
        self._display.event("message", message=text)

    def driver_started(self, pid: int) -> None:
        self.batches_since_start = 0
        self._is_idle_shown = False
        self._driver_started_ms = self._clock.monotonic_ms()
        self._now(self.status.started(self._clock.wall_ms(), pid))
        self._display.activity("starting Spark …")
        self._display.event("driver_started", pid=pid)

    def driver_ended(self, returncode: int, will_retry_in_s: float | None) -> None:
        """Process the end of a driver, which is restarted after a while, or not."""
        if will_retry_in_s is not None:
            self._now(self.status.restarting(self._clock.wall_ms()))
            self._display.message(
                f"the driver exited with {returncode}; restarting in {seconds_text(will_retry_in_s)}"
            )
        self._display.event("driver_ended", returncode=returncode, retry_in_s=will_retry_in_s)

    def failed(self, message: str) -> None:
        """Process a failure that the driver could not report itself, such as a kill."""
        self._now(self.status.failed(message, self._clock.wall_ms()))
        self._display.message(message)
        self._display.event("failed", message=message)

    def close(self, outcome: RunState) -> None:
        """End the run."""
        self._now(self.status.over(outcome, self._clock.wall_ms()))
        self._display.close()
        self._display.message(summary(self.status, self.rows_replayed))
        self._display.event("over", **to_json(self.status))

    def _now(self, status: RunStatus) -> None:
        self.status = status
        if self._metrics is not None:
            self._metrics.show(status)
        if self._store is not None:
            self._write(self._store, status)

    def _write(self, store: StatusStore, status: RunStatus) -> None:
        """Write the status file; a failure is shown once, and never ends a run."""
        try:
            store.write_sidecar(STATUS, json.dumps(to_json(status), indent=1))
            self._store_fails = False
        except OSError as failed:
            if not self._store_fails:
                self._display.message(f"the status file cannot be written: {failed}")
            self._store_fails = True

    def _show_line(self, line: str) -> None:
        text = line.strip()[:LINE_CHARACTERS_MAX]
        if text:
            self._display.message(f"driver: {text}")

    def _started(self, event: Mapping[str, Any]) -> None:
        self._now(self.status.running(self._clock.wall_ms()))
        took_s = (self._clock.monotonic_ms() - self._driver_started_ms) / 1000
        self._display.message(f"Spark is ready after {seconds_text(took_s)}; {self.status.name} is running")
        self._display.event("started", query_id=event.get("query_id"), run_id=event.get("run_id"))

    def _progress(self, event: Mapping[str, Any]) -> None:
        progress = self._aged(read_progress(event["progress"]))
        self.batches_since_start += 1
        self._now(self.status.progressed(progress, self._clock.wall_ms()))
        self._display.batch(progress)

    def _idle(self, event: Mapping[str, Any]) -> None:
        del event
        self._now(self.status.idle(self._clock.wall_ms()))
        if not self._is_idle_shown:
            self._display.activity("all records are read; waiting for new ones")
            self._is_idle_shown = True

    def _failed(self, event: Mapping[str, Any]) -> None:
        self.failed(str(event["message"]))

    def _replayed(self, event: Mapping[str, Any]) -> None:
        self.rows_replayed = int(event["rows"])
        self._display.event("replayed", rows=self.rows_replayed, skipped=bool(event.get("skipped")))

    def _ended(self, event: Mapping[str, Any]) -> None:
        self._display.event("ended", reason=event.get("reason"))

    def _aged(self, progress: Progress) -> Progress:
        """Add the age of the oldest unread record; between two reads the last age is kept."""
        if progress.lag_rows is None or progress.end is None or progress.latest is None:
            return progress
        if progress.lag_rows == 0 or self._oldest_unread is None:
            return progress.with_lag_seconds(0.0 if progress.lag_rows == 0 else None)
        now_ms = self._clock.monotonic_ms()
        if self._age_read_ms is not None and now_ms - self._age_read_ms < AGE_EVERY_MS:
            last = self.status.last
            return progress.with_lag_seconds(None if last is None else last.lag_s)
        self._age_read_ms = now_ms
        since_ms = self._oldest_unread(progress.end, progress.latest)
        age_s = None if since_ms is None else max(0, self._clock.wall_ms() - since_ms) / 1000
        return progress.with_lag_seconds(age_s)

    _HANDLERS: Final = {
        "started": _started,
        "progress": _progress,
        "idle": _idle,
        "failed": _failed,
        "replayed": _replayed,
        "ended": _ended,
    }


def summary(status: RunStatus, rows_replayed: int | None = None) -> str:
    """Return a summary of a run in one line."""
    counts = [counted(status.batch_count, "batch"), counted(status.row_count, "row")]
    parts = [
        f"{status.name} {status.state}",
        *(counts if rows_replayed is None else [f"{counted(rows_replayed, 'row')} replayed"]),
        seconds_text((status.updated_ms - status.started_ms) / 1000),
    ]
    if status.restart_count:
        parts.append(counted(status.restart_count, "restart"))
    if status.dead_letter_count:
        parts.append(counted(status.dead_letter_count, "dead letter"))
    if status.late_dropped_count:
        parts.append(late_text(status.late_dropped_count))
    return " · ".join(parts)


def oldest_in_topics(reader: OldestRecordReader) -> OldestUnread:
    """Return a function that reads the oldest unread record; None if the brokers are unreachable."""

    def read(end: Offsets, latest: Offsets) -> int | None:
        latest_offsets = _flat(latest)
        behind = {
            partition: offset
            for partition, offset in _flat(end).items()
            if offset < latest_offsets.get(partition, 0)
        }
        try:
            timestamps = reader.timestamps_ms(behind, latest_offsets)
        except ClientError:
            return None
        return min((timestamp for timestamp in timestamps.values() if timestamp is not None), default=None)

    return read


def _flat(offsets: Offsets) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number): offset
        for topic, partitions in offsets.items()
        for number, offset in partitions.items()
    }


@contextmanager
def monitor_run(
    spec: Spec,
    clock: Clock,
    *,
    once: bool = False,
    json: bool = False,
    metrics_port: int | None = None,
    metrics_host: str = LOOPBACK,
    store: StatusStore | None = None,
    before: RunStatus | None = None,
) -> Iterator[RunMonitor]:
    """Open a monitor with its outputs: terminal or JSON lines, the status file, and metrics if configured.

    ``before`` is the previous run, whose counts are continued.
    """
    now_ms = clock.wall_ms()
    status = RunStatus(spec.name, os.getpid(), platform.node(), now_ms, now_ms, once)
    if before is not None:
        status = before.next_run(os.getpid(), platform.node(), now_ms, once=once)
    port = spec.observe.metrics_port if metrics_port is None else metrics_port
    with ExitStack() as opened:
        display = display_for(as_json=json)
        opened.callback(display.close)
        metrics = None if port is None else MetricsServer(status, port, metrics_host)
        if metrics is not None:
            opened.callback(metrics.close)
            display.message(f"metrics at {metrics.address}")
        oldest_unread = None
        if spec.source.type == "topic":
            oldest_unread = oldest_in_topics(opened.enter_context(OldestRecordReader(spec, clock)))
        yield RunMonitor(status, clock, display, store=store, metrics=metrics, oldest_unread=oldest_unread)
