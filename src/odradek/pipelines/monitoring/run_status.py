"""Status of a pipeline run, in one immutable value for the status file, the metrics and the terminal.

Every change is a function from one status to the next, so the three never disagree.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from odradek.pipelines.monitoring import progress as batches
from odradek.pipelines.monitoring.progress import Progress


class RunState(enum.StrEnum):
    """State of a run."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting to start again"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (RunState.DONE, RunState.STOPPED, RunState.FAILED)


@dataclass(frozen=True)
class Failure:
    """The last failure of the driver."""

    at_ms: int
    message: str


@dataclass(frozen=True)
class RunTotals:
    """Counts over several runs of a pipeline, since its checkpoint was created."""

    run_count: int = 0
    batch_count: int = 0
    row_count: int = 0
    dead_letter_count: int = 0
    late_dropped_count: int = 0


@dataclass(frozen=True)
class RunStatus:
    """Status of one run of a pipeline; the counts are of this run."""

    name: str
    pid: int
    host: str
    started_ms: int
    updated_ms: int
    once: bool = False
    state: RunState = RunState.STARTING
    driver_pid: int | None = None
    restart_count: int = 0
    failure: Failure | None = None
    batch_count: int = 0
    row_count: int = 0
    late_dropped_count: int = 0
    dead_letter_count: int = 0
    last: Progress | None = None
    earlier: RunTotals = RunTotals()
    """Counts of earlier runs."""

    @property
    def totals(self) -> RunTotals:
        """Counts of all runs, this one included."""
        return RunTotals(
            self.earlier.run_count + 1,
            self.earlier.batch_count + self.batch_count,
            self.earlier.row_count + self.row_count,
            self.earlier.dead_letter_count + self.dead_letter_count,
            self.earlier.late_dropped_count + self.late_dropped_count,
        )

    def next_run(self, pid: int, host: str, now_ms: int, *, once: bool) -> RunStatus:
        """Return the initial status of the next run."""
        return RunStatus(self.name, pid, host, now_ms, now_ms, once, earlier=self.totals)

    def started(self, now_ms: int, driver_pid: int | None) -> RunStatus:
        """Return the status after a driver process was started."""
        return replace(self, state=RunState.STARTING, driver_pid=driver_pid, updated_ms=now_ms)

    def running(self, now_ms: int) -> RunStatus:
        return replace(self, state=RunState.RUNNING, updated_ms=now_ms)

    def progressed(self, progress: Progress, now_ms: int) -> RunStatus:
        """Return the status after a completed batch."""
        return replace(
            self,
            state=RunState.RUNNING,
            updated_ms=now_ms,
            batch_count=self.batch_count + 1,
            row_count=self.row_count + progress.row_count,
            late_dropped_count=self.late_dropped_count + progress.late_dropped_count,
            dead_letter_count=self.dead_letter_count + progress.dead_letter_count,
            last=progress,
        )

    def idle(self, now_ms: int) -> RunStatus:
        """Return the status after the source reported no new records: there is no lag."""
        caught_up = self.last
        if caught_up is not None and caught_up.lag_rows is not None:
            caught_up = replace(caught_up, lag_rows=0, lag_s=0.0, latest=caught_up.end)
        return replace(self, state=RunState.RUNNING, updated_ms=now_ms, last=caught_up)

    def failed(self, message: str, now_ms: int) -> RunStatus:
        """Return the status after a failure of the driver; a restart or the end follows."""
        return replace(self, failure=Failure(now_ms, message), updated_ms=now_ms)

    def restarting(self, now_ms: int) -> RunStatus:
        return replace(
            self,
            state=RunState.WAITING,
            restart_count=self.restart_count + 1,
            driver_pid=None,
            updated_ms=now_ms,
        )

    def over(self, state: RunState, now_ms: int) -> RunStatus:
        return replace(self, state=state, driver_pid=None, updated_ms=now_ms)


def to_json(status: RunStatus) -> dict[str, object]:
    """Return the JSON form, for the status file and for programs."""
    last = status.last
    return {
        **asdict(status),
        "state": str(status.state),
        "last": None if last is None else batches.to_json(last),
    }


def from_json(value: Mapping[str, Any]) -> RunStatus:
    """Parse the JSON form; fields of a later release are ignored."""
    field_names = {field.name for field in fields(RunStatus)}
    known = {name: field for name, field in value.items() if name in field_names}
    known["state"] = RunState(known["state"])
    if known.get("failure") is not None:
        known["failure"] = Failure(**known["failure"])
    if known.get("earlier") is not None:
        known["earlier"] = RunTotals(**known["earlier"])
    if known.get("last") is not None:
        known["last"] = batches.from_json(known["last"])
    return RunStatus(**known)
