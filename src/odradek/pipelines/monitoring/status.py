"""Status of a pipeline: whether it runs, its last batch, and its lag.

There are four sources: the lease (is it running?), the status file of the last run, Spark's checkpoint, and
the group's offsets. Each may be unavailable; the others are shown all the same.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from odradek.cli.errors import CommandFailed
from odradek.model.client_errors import ClientError
from odradek.pipelines.monitoring.lag import PartitionLag, read_lag, total
from odradek.pipelines.monitoring.progress import counted, lag_text, late_text, seconds_text, to_json
from odradek.pipelines.monitoring.run_monitor import STATUS
from odradek.pipelines.monitoring.run_status import RunStatus, RunTotals, from_json

if TYPE_CHECKING:
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState
    from odradek.pipelines.spec.reader import Spec
    from odradek.ports.clock import Clock

UNKNOWN_HOLDER: Final = ""
"""Holder of the lease if the brokers could not be reached."""


@dataclass(frozen=True)
class Status:
    """Status of a pipeline."""

    name: str
    checkpoint: str
    group: str
    now_ms: int
    holder: str | None
    """Holder of the lease; None if it is not running."""
    last_run: RunStatus | None
    """Status file of the last run."""
    batch_id: int | None
    """The last committed batch, by the checkpoint."""
    unfinished: int | None
    """A batch that is planned and not committed."""
    lag_rows: int | None = None
    lag_s: float | None = None
    lag_unknown_reason: str | None = None
    """Reason why the lag is unknown."""
    is_holder_known: bool = True
    """True if the holder of the lease could be read."""

    @property
    def running(self) -> bool:
        return self.holder is not None

    @property
    def state_text(self) -> str:
        """State for people."""
        if self.holder is not None:
            if self.last_run is None or self.last_run.state.is_over:
                return "running"
            return str(self.last_run.state)
        if not self.is_holder_known:
            return "unknown: no broker reachable"
        if self.last_run is None:
            return "never run" if self.batch_id is None else "not running"
        if not self.last_run.state.is_over:
            return "not running (the last run was killed)"
        return f"not running ({self.last_run.state})"


def build_status(
    spec: Spec,
    now_ms: int,
    holder: str | None,
    state: CheckpointState,
    status_text: str | None,
    lag: list[PartitionLag] | str,
) -> Status:
    """Combine the sources; ``lag`` may be the reason why it is unknown."""
    rows, seconds = (None, None) if isinstance(lag, str) else total(lag)
    return Status(
        name=spec.name,
        checkpoint=spec.checkpoint,
        group=spec.observe.group,
        now_ms=now_ms,
        holder=None if holder == UNKNOWN_HOLDER else holder,
        is_holder_known=holder != UNKNOWN_HOLDER,
        last_run=parse_run_status(status_text),
        batch_id=state.committed_id,
        unfinished=None if state.unfinished is None else state.unfinished.batch_id,
        lag_rows=rows,
        lag_s=seconds,
        lag_unknown_reason=lag if isinstance(lag, str) else None,
    )


def parse_run_status(text: str | None) -> RunStatus | None:
    """Parse the status file; None if it is missing or invalid, such as one of another release."""
    try:
        return None if text is None else from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def status_lines(status: Status) -> list[tuple[str, str]]:
    """Return pairs of a label and a text, for people."""
    lines = [("pipeline", status.name), ("state", status.state_text)]
    if status.holder is not None:
        lines.append(("run by", status.holder))
    lines += _batch_lines(status)
    if status.lag_rows is not None:
        lines.append(("lag", lag_text(status.lag_rows, status.lag_s).removeprefix("lag ")))
    elif status.lag_unknown_reason is not None:
        lines.append(("lag", f"unknown: {status.lag_unknown_reason}"))
    lines += _run_lines(status)
    return [*lines, ("group", status.group), ("checkpoint", status.checkpoint)]


def _batch_lines(status: Status) -> list[tuple[str, str]]:
    lines = []
    last = None if status.last_run is None else status.last_run.last
    if last is not None:
        ago = seconds_text(max(0, status.now_ms - last.at_ms) / 1000)
        lines.append(("last batch", f"{last.batch_id}, {_time(last.at_ms)} ({ago} ago)"))
        took = seconds_text(last.batch_ms / 1000)
        lines.append(("rows", f"{counted(last.row_count, 'row')}, {last.rows_per_s:,.0f} rows/s, {took}"))
    elif status.batch_id is not None:
        lines.append(("last batch", str(status.batch_id)))
    if status.unfinished is not None and not status.running:
        lines.append(("unfinished", f"batch {status.unfinished} is replayed first"))
    return lines


def _run_lines(status: Status) -> list[tuple[str, str]]:
    run = status.last_run
    if run is None:
        return []
    counts = f"{counted(run.batch_count, 'batch')}, {counted(run.row_count, 'row')}"
    lines = [("this run" if status.running else "last run", f"since {_time(run.started_ms)}: {counts}")]
    if run.earlier.run_count:
        lines.append(("all runs", _totals_text(run.totals)))
    lines.append(("restarts", str(run.restart_count)))
    if run.dead_letter_count:
        lines.append(("dead letters", f"{run.dead_letter_count:,}"))
    if run.late_dropped_count:
        lines.append(("late rows", f"at least {run.late_dropped_count:,} dropped"))
    if run.failure is not None:
        lines.append(("last failure", f"{_time(run.failure.at_ms)}: {run.failure.message}"))
    return lines


def _totals_text(totals: RunTotals) -> str:
    parts = [
        counted(totals.run_count, "run"),
        counted(totals.batch_count, "batch"),
        counted(totals.row_count, "row"),
    ]
    if totals.dead_letter_count:
        parts.append(counted(totals.dead_letter_count, "dead letter"))
    if totals.late_dropped_count:
        parts.append(late_text(totals.late_dropped_count))
    return ", ".join(parts)


def as_json(status: Status) -> dict[str, Any]:
    """Return the JSON form, for programs."""
    run = status.last_run
    last = None if run is None or run.last is None else to_json(run.last)
    failure = None if run is None or run.failure is None else run.failure
    return {
        "name": status.name,
        "running": status.running,
        "state": status.state_text,
        "run_by": status.holder,
        "last_batch": status.batch_id,
        "unfinished_batch": status.unfinished,
        "lag_rows": status.lag_rows,
        "lag_s": None if status.lag_s is None else round(status.lag_s, 3),
        "lag_unknown_because": status.lag_unknown_reason,
        "started_ms": None if run is None else run.started_ms,
        "updated_ms": None if run is None else run.updated_ms,
        "batch_count": None if run is None else run.batch_count,
        "row_count": None if run is None else run.row_count,
        "restart_count": None if run is None else run.restart_count,
        "dead_letter_count": None if run is None else run.dead_letter_count,
        "late_dropped_count": None if run is None else run.late_dropped_count,
        "all_runs": None if run is None else asdict(run.totals),
        "last_failure": None if failure is None else {"at_ms": failure.at_ms, "message": failure.message},
        "progress": last,
        "group": status.group,
        "checkpoint": status.checkpoint,
    }


def read_status(
    spec: Spec, checkpoint: Checkpoint, holder: Callable[[Spec], str | None], clock: Clock
) -> Status:
    """Return the current status; with unreachable brokers lag and holder are unknown."""
    current_holder, unavailable = _read_holder(holder, spec)
    lag: list[PartitionLag] | str
    try:
        # Unreachable brokers are not tried twice.
        lag = unavailable if unavailable is not None else read_lag(spec, clock)
    except (ClientError, CommandFailed) as failed:
        lag = str(failed)
    return build_status(
        spec, clock.wall_ms(), current_holder, checkpoint.state(), checkpoint.read_sidecar(STATUS), lag
    )


def _read_holder(holder: Callable[[Spec], str | None], spec: Spec) -> tuple[str | None, str | None]:
    """Return the holder of the lease, and the reason if it could not be read."""
    try:
        return holder(spec), None
    except (ClientError, CommandFailed) as failed:
        return UNKNOWN_HOLDER, str(failed)


def _time(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
