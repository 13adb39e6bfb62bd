"""What one micro-batch did: read from Spark's own report of it, and told in one line or as JSON.

Lag is counted in two ways. In rows it is, summed over partitions, the newest offset the source has seen minus
the offset the batch ended at; control records and compaction make it an upper bound of the records that wait.
In seconds it is how long the oldest record that waits has been in its topic, by its own timestamp: 0 where
nothing waits. Spark does not know that one; whoever reads the record sets it (``lag.py``).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

Offsets = dict[str, dict[int, int]]
"""By topic and partition."""

OBSERVED: Final = "odradek"
"""The name under which a pipeline counts what Spark itself does not: ``rows`` and ``dead_letters``."""


@dataclass(frozen=True)
class Progress:
    """One micro-batch that has ended."""

    query_id: str
    run_id: str
    at_ms: int
    """When the batch began."""
    batch_id: int
    row_count: int
    batch_ms: int
    parts_ms: dict[str, int] = field(default_factory=dict)
    """What the time went into, by Spark's names for it."""
    start: Offsets | None = None
    end: Offsets | None = None
    latest: Offsets | None = None
    """None where the source is no topic."""
    lag_rows: int | None = None
    lag_s: float | None = None
    late_dropped_count: int = 0
    """Late rows that stateful operators dropped, at least so many: an aggregation drops after Spark has put
    the rows of a batch together, so those of one group count as one."""
    dead_letter_count: int = 0
    state_row_count: int = 0
    watermark: str | None = None

    @property
    def rows_per_s(self) -> float:
        return self.row_count * 1000 / self.batch_ms if self.batch_ms > 0 else 0.0

    def waiting_longest(self, seconds: float | None) -> Progress:
        """The same with the age of the oldest record that waits."""
        return replace(self, lag_s=seconds)


def read_progress(report: Mapping[str, Any]) -> Progress:
    """The report of a batch, as ``StreamingQueryProgress.json`` has it."""
    sources = report.get("sources", ())
    operators = report.get("stateOperators", ())
    end = _merged(sources, "endOffset", min)
    latest = _merged(sources, "latestOffset", max)
    parts = dict(report.get("durationMs", {}))
    observed = report.get("observedMetrics", {}).get(OBSERVED) or {}
    return Progress(
        query_id=report["id"],
        run_id=report["runId"],
        at_ms=_moment_ms(report["timestamp"]),
        batch_id=report["batchId"],
        # With dead letters Spark reads each batch twice, and counts so; the pipeline itself counts once.
        row_count=int(observed.get("rows") or report.get("numInputRows", 0)),
        batch_ms=report.get("batchDuration", parts.get("triggerExecution", 0)),
        parts_ms=parts,
        start=_merged(sources, "startOffset", min),
        end=end,
        latest=latest,
        lag_rows=_total_lag(end, latest),
        late_dropped_count=sum(one.get("numRowsDroppedByWatermark", 0) for one in operators),
        dead_letter_count=int(observed.get("dead_letters") or 0),
        state_row_count=sum(one.get("numRowsTotal", 0) for one in operators),
        watermark=_watermark(report),
    )


def read_offsets(value: object) -> Offsets | None:
    """Offsets ``{"topic": {"0": 5}}``; None if the value is something else, as the version of a table."""
    if not isinstance(value, Mapping):
        return None
    found: Offsets = {}
    for topic, of_topic in value.items():
        if not isinstance(of_topic, Mapping):
            return None
        try:
            found[str(topic)] = {int(number): int(offset) for number, offset in of_topic.items()}
        except (TypeError, ValueError):
            return None
    return found


def lag_by_partition(end: Offsets, latest: Offsets) -> dict[tuple[str, int], int]:
    """Offsets left in each partition. All of a partition that no batch has reached yet is left."""
    return {
        (topic, number): max(0, offset - end.get(topic, {}).get(number, 0))
        for topic, of_topic in sorted(latest.items())
        for number, offset in sorted(of_topic.items())
    }


def line_of(progress: Progress) -> str:
    """``batch 42 · 120,000 rows · 310,000 rows/s · 0.39 s · lag 0 rows, 0 s``, and what is unusual."""
    words = [
        f"batch {progress.batch_id}",
        counted(progress.row_count, "row"),
        f"{progress.rows_per_s:,.0f} rows/s",
        seconds_text(progress.batch_ms / 1000),
    ]
    if progress.lag_rows is not None:
        words.append(lag_text(progress.lag_rows, progress.lag_s))
    if progress.dead_letter_count:
        words.append(counted(progress.dead_letter_count, "dead letter"))
    if progress.late_dropped_count:
        words.append(late_text(progress.late_dropped_count))
    if progress.state_row_count:
        words.append(f"{progress.state_row_count:,} rows of state")
    return " · ".join(words)


def counted(count: int, noun: str) -> str:
    """A number and its noun: ``1 row``, ``1,200 rows``, ``2 batches``."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('ch') else 's'}"


def late_text(dropped_count: int) -> str:
    """How many rows came too late: no fewer, and more where several fell into one group."""
    return f"at least {dropped_count:,} late rows dropped"


def lag_text(rows: int, seconds: float | None) -> str:
    return f"lag {counted(rows, 'row')}" + ("" if seconds is None else f", {seconds_text(seconds)}")


def seconds_text(seconds: float) -> str:
    """``0 s``, ``0.39 s``, ``12.3 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 0.005:
        return "0 s"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 119.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, below, small in (("d", "h", 3600), ("h", "min", 60), ("min", "s", 1)):
        large = small * (24 if unit == "d" else 60)
        if whole >= large:
            return f"{whole // large} {unit} {whole % large // small} {below}"
    return f"{whole} s"


def to_json(progress: Progress) -> dict[str, Any]:
    """All of it, with rows per second, for programs."""
    return {**asdict(progress), "rows_per_s": round(progress.rows_per_s, 1)}


def from_json(value: Mapping[str, Any]) -> Progress:
    """What ``to_json`` gave, after a way through text; fields of a later release are passed over."""
    known = {one.name for one in fields(Progress)}
    kept = {name: one for name, one in value.items() if name in known}
    for name in ("start", "end", "latest"):
        kept[name] = read_offsets(kept.get(name))
    return Progress(**kept)


def _merged(sources: Iterable[Mapping[str, Any]], name: str, choose: Any) -> Offsets | None:
    """Offsets of all sources: where two read the same partition, the one ``choose`` takes."""
    merged: Offsets = {}
    for source in sources:
        offsets = read_offsets(source.get(name))
        if offsets is None:
            return None
        for topic, of_topic in offsets.items():
            into = merged.setdefault(topic, {})
            for number, offset in of_topic.items():
                into[number] = choose(into.get(number, offset), offset)
    return merged or None


def _total_lag(end: Offsets | None, latest: Offsets | None) -> int | None:
    if end is None or latest is None:
        return None
    return sum(lag_by_partition(end, latest).values())


def _watermark(report: Mapping[str, Any]) -> str | None:
    """The watermark of the batch; None before there is one, which Spark writes as the year 1970."""
    text = report.get("eventTime", {}).get("watermark")
    return None if text is None or text.startswith("1970-01-01T00:00:00") else str(text)


def _moment_ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
