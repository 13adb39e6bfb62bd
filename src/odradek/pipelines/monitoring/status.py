"""How a pipeline stands, for whoever asks: whether it runs, what it did last, how far behind it is.

Four witnesses are heard: the lease (does anybody run it?), the status file of the last run, Spark's
checkpoint, and the group's offsets. Each may be silent; what the others tell is shown all the same.
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

NOT_ASKED: Final = ""
"""Stands for the holder where nobody could be asked."""


@dataclass(frozen=True)
class Status:
    """All that is known of a pipeline."""

    name: str
    checkpoint: str
    group: str
    now_ms: int
    holder: str | None
    """Who runs it; None if nobody does."""
    standing: RunStatus | None
    """What the last run wrote down."""
    batch_id: int | None
    """The last batch that is done, by the checkpoint."""
    unfinished: int | None
    """A batch that was begun and is not done."""
    lag_rows: int | None = None
    lag_s: float | None = None
    silent: str | None = None
    """Why there is no lag."""
    is_asked: bool = True
    """Whether it could be asked who runs it."""

    @property
    def running(self) -> bool:
        return self.holder is not None

    @property
    def word(self) -> str:
        """One word or two for what it is doing."""
        if self.holder is not None:
            told = None if self.standing is None or self.standing.state.is_over else self.standing.state
            return "running" if told is None else str(told)
        if not self.is_asked:
            return "not known: no broker answers"
        if self.standing is None:
            return "never run" if self.batch_id is None else "not running"
        if not self.standing.state.is_over:
            return "not running (the last run was killed)"
        return f"not running ({self.standing.state})"


def gather(
    spec: Spec,
    now_ms: int,
    holder: str | None,
    state: CheckpointState,
    status_text: str | None,
    lag: list[PartitionLag] | str,
) -> Status:
    """What the witnesses tell, put together; for lag and holder there may be a reason not to know."""
    rows, seconds = (None, None) if isinstance(lag, str) else total(lag)
    return Status(
        name=spec.name,
        checkpoint=spec.checkpoint,
        group=spec.observe.group,
        now_ms=now_ms,
        holder=None if holder == NOT_ASKED else holder,
        is_asked=holder != NOT_ASKED,
        standing=read_standing(status_text),
        batch_id=state.committed_id,
        unfinished=None if state.unfinished is None else state.unfinished.batch_id,
        lag_rows=rows,
        lag_s=seconds,
        silent=lag if isinstance(lag, str) else None,
    )


def read_standing(text: str | None) -> RunStatus | None:
    """The status file; one that cannot be read, as of another release, is as good as none."""
    try:
        return None if text is None else from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def lines_of(status: Status) -> list[tuple[str, str]]:
    """Pairs of what and how, for people."""
    lines = [("pipeline", status.name), ("state", status.word)]
    if status.holder is not None:
        lines.append(("run by", status.holder))
    lines += _batch_lines(status)
    if status.lag_rows is not None:
        lines.append(("lag", lag_text(status.lag_rows, status.lag_s).removeprefix("lag ")))
    elif status.silent is not None:
        lines.append(("lag", f"not known: {status.silent}"))
    lines += _run_lines(status)
    return [*lines, ("group", status.group), ("checkpoint", status.checkpoint)]


def _batch_lines(status: Status) -> list[tuple[str, str]]:
    lines = []
    last = None if status.standing is None else status.standing.last
    if last is not None:
        ago = seconds_text(max(0, status.now_ms - last.at_ms) / 1000)
        lines.append(("last batch", f"{last.batch_id}, {_moment(last.at_ms)} ({ago} ago)"))
        took = seconds_text(last.batch_ms / 1000)
        lines.append(("rows", f"{counted(last.row_count, 'row')}, {last.rows_per_s:,.0f} rows/s, {took}"))
    elif status.batch_id is not None:
        lines.append(("last batch", str(status.batch_id)))
    if status.unfinished is not None and not status.running:
        lines.append(("unfinished", f"batch {status.unfinished} runs again first"))
    return lines


def _run_lines(status: Status) -> list[tuple[str, str]]:
    run = status.standing
    if run is None:
        return []
    done = f"{counted(run.batch_count, 'batch')}, {counted(run.row_count, 'row')}"
    lines = [("this run" if status.running else "last run", f"since {_moment(run.started_ms)}: {done}")]
    if run.earlier.run_count:
        lines.append(("all runs", _totals_text(run.totals)))
    lines.append(("restarts", str(run.restart_count)))
    if run.dead_letter_count:
        lines.append(("dead letters", f"{run.dead_letter_count:,}"))
    if run.late_dropped_count:
        lines.append(("late rows", f"at least {run.late_dropped_count:,} dropped"))
    if run.failure is not None:
        lines.append(("last failure", f"{_moment(run.failure.at_ms)}: {run.failure.message}"))
    return lines


def _totals_text(totals: RunTotals) -> str:
    words = [
        counted(totals.run_count, "run"),
        counted(totals.batch_count, "batch"),
        counted(totals.row_count, "row"),
    ]
    if totals.dead_letter_count:
        words.append(counted(totals.dead_letter_count, "dead letter"))
    if totals.late_dropped_count:
        words.append(late_text(totals.late_dropped_count))
    return ", ".join(words)


def as_json(status: Status) -> dict[str, Any]:
    """All of it, for programs."""
    run = status.standing
    last = None if run is None or run.last is None else to_json(run.last)
    failure = None if run is None or run.failure is None else run.failure
    return {
        "name": status.name,
        "running": status.running,
        "state": status.word,
        "run_by": status.holder,
        "last_batch": status.batch_id,
        "unfinished_batch": status.unfinished,
        "lag_rows": status.lag_rows,
        "lag_s": None if status.lag_s is None else round(status.lag_s, 3),
        "lag_unknown_because": status.silent,
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
    """The status as it is now. Brokers that do not answer cost lag and holder, not the rest."""
    by, silent = _asked(holder, spec)
    lag: list[PartitionLag] | str
    try:
        # Brokers that have just not answered are not waited for once more.
        lag = silent if silent is not None else read_lag(spec, clock)
    except (ClientError, CommandFailed) as failed:
        lag = str(failed)
    return gather(spec, clock.wall_ms(), by, checkpoint.state(), checkpoint.read_sidecar(STATUS), lag)


def _asked(holder: Callable[[Spec], str | None], spec: Spec) -> tuple[str | None, str | None]:
    """Who runs it, and why that could not be asked."""
    try:
        return holder(spec), None
    except (ClientError, CommandFailed) as failed:
        return NOT_ASKED, str(failed)


def _moment(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
