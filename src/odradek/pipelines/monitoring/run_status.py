"""How a pipeline stands: what its runner knows of it, in one value that is written down, shown and measured.

Every change is a function from one standing to the next, so the status file, the metrics and the terminal can
never tell different things.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from odradek.pipelines.monitoring import progress as batches
from odradek.pipelines.monitoring.progress import Progress


class RunState(enum.StrEnum):
    """Where a run is."""

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
    """The last time the driver failed."""

    at_ms: int
    message: str


@dataclass(frozen=True)
class RunTotals:
    """Counts of several runs of a pipeline, since its checkpoint began."""

    run_count: int = 0
    batch_count: int = 0
    row_count: int = 0
    dead_letter_count: int = 0
    late_dropped_count: int = 0


@dataclass(frozen=True)
class RunStatus:
    """One run of a pipeline, from its start until now. Counts are those of this run."""

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
    """Counts of the runs before this one."""

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
        """The next run as it begins."""
        return RunStatus(self.name, pid, host, now_ms, now_ms, once, earlier=self.totals)

    def started(self, now_ms: int, driver_pid: int | None) -> RunStatus:
        """A driver process runs, and will tell when its query does."""
        return replace(self, state=RunState.STARTING, driver_pid=driver_pid, updated_ms=now_ms)

    def running(self, now_ms: int) -> RunStatus:
        return replace(self, state=RunState.RUNNING, updated_ms=now_ms)

    def progressed(self, progress: Progress, now_ms: int) -> RunStatus:
        """A batch has ended."""
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
        """The source was asked and has nothing new: whatever the last batch left behind has been read."""
        caught_up = self.last
        if caught_up is not None and caught_up.lag_rows is not None:
            caught_up = replace(caught_up, lag_rows=0, lag_s=0.0, latest=caught_up.end)
        return replace(self, state=RunState.RUNNING, updated_ms=now_ms, last=caught_up)

    def failed(self, message: str, now_ms: int) -> RunStatus:
        """The driver failed; whether it is started again is told next."""
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


def to_json(standing: RunStatus) -> dict[str, Any]:
    """All of it, for the status file and for programs."""
    last = standing.last
    return {
        **asdict(standing),
        "state": str(standing.state),
        "last": None if last is None else batches.to_json(last),
    }


def from_json(value: Mapping[str, Any]) -> RunStatus:
    """What ``to_json`` gave; fields of a later release are passed over."""
    known = {one.name for one in fields(RunStatus)}
    kept = {name: one for name, one in value.items() if name in known}
    kept["state"] = RunState(kept["state"])
    if kept.get("failure") is not None:
        kept["failure"] = Failure(**kept["failure"])
    if kept.get("earlier") is not None:
        kept["earlier"] = RunTotals(**kept["earlier"])
    if kept.get("last") is not None:
        kept["last"] = batches.from_json(kept["last"])
    return RunStatus(**kept)
