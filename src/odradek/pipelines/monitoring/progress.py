"""Progress of a micro-batch: parsed from Spark's StreamingQueryProgress, and formatted as a line or JSON.

Lag has two measures. In rows it is the sum over partitions of the latest offset minus the batch's end offset;
control records and compaction make it an upper bound of the unread records. In seconds it is the age of the
oldest unread record, by its timestamp: 0 if there is none. Spark does not know the latter (see ``lag.py``).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

Offsets = dict[str, dict[int, int]]
"""By topic and partition."""

OBSERVED: Final = "odradek"
"""Name of a pipeline's observed metrics: ``rows`` and ``dead_letters``."""


@dataclass(frozen=True)
class Progress:
    """One completed micro-batch."""

    query_id: str
    run_id: str
    at_ms: int
    """Start of the batch."""
    batch_id: int
    row_count: int
    batch_ms: int
    parts_ms: dict[str, int] = field(default_factory=dict)
    """Durations of Spark's phases, by Spark's names."""
    start: Offsets | None = None
    end: Offsets | None = None
    latest: Offsets | None = None
    """None for a table source."""
    lag_rows: int | None = None
    lag_s: float | None = None
    late_dropped_count: int = 0
    """Lower bound of the late rows dropped by stateful operators: an aggregation drops rows after partial
    aggregation, so those of one group in a batch count as one."""
    dead_letter_count: int = 0
    state_row_count: int = 0
    watermark: str | None = None

    @property
    def rows_per_s(self) -> float:
        return self.row_count * 1000 / self.batch_ms if self.batch_ms > 0 else 0.0

    def with_lag_seconds(self, seconds: float | None) -> Progress:
        """Return a copy with the age of the oldest unread record."""
        return replace(self, lag_s=seconds)


def read_progress(report: Mapping[str, Any]) -> Progress:
    """Parse the report of a batch, in the form of ``StreamingQueryProgress.json``."""
    sources = report.get("sources", ())
    operators = report.get("stateOperators", ())
    end = _merged(sources, "endOffset", min)
    latest = _merged(sources, "latestOffset", max)
    parts = dict(report.get("durationMs", {}))
    observed = report.get("observedMetrics", {}).get(OBSERVED) or {}
    return Progress(
        query_id=report["id"],
        run_id=report["runId"],
        at_ms=_timestamp_ms(report["timestamp"]),
        batch_id=report["batchId"],
        # With dead letters Spark reads and counts each batch twice; the observed metric counts once.
        row_count=int(observed.get("rows") or report.get("numInputRows", 0)),
        batch_ms=report.get("batchDuration", parts.get("triggerExecution", 0)),
        parts_ms=parts,
        start=_merged(sources, "startOffset", min),
        end=end,
        latest=latest,
        lag_rows=_total_lag(end, latest),
        late_dropped_count=sum(operator.get("numRowsDroppedByWatermark", 0) for operator in operators),
        dead_letter_count=int(observed.get("dead_letters") or 0),
        state_row_count=sum(operator.get("numRowsTotal", 0) for operator in operators),
        watermark=_watermark(report),
    )


def read_offsets(value: object) -> Offsets | None:
    """Parse offsets ``{"topic": {"0": 5}}``; None for another value, such as the version of a table."""
    if not isinstance(value, Mapping):
        return None
    offsets: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            return None
        try:
            offsets[str(topic)] = {int(number): int(offset) for number, offset in partitions.items()}
        except (TypeError, ValueError):
            return None
    return offsets


def lag_by_partition(end: Offsets, latest: Offsets) -> dict[tuple[str, int], int]:
    """Return the lag of each partition; a partition without an end offset counts from 0."""
    return {
        (topic, number): max(0, offset - end.get(topic, {}).get(number, 0))
        for topic, partitions in sorted(latest.items())
        for number, offset in sorted(partitions.items())
    }


def line_of(progress: Progress) -> str:
    """Return ``batch 42 · 120,000 rows · 310,000 rows/s · 0.39 s · lag 0 rows, 0 s``, and exceptions."""
    parts = [
        f"batch {progress.batch_id}",
        counted(progress.row_count, "row"),
        f"{progress.rows_per_s:,.0f} rows/s",
        seconds_text(progress.batch_ms / 1000),
    ]
    if progress.lag_rows is not None:
        parts.append(lag_text(progress.lag_rows, progress.lag_s))
    if progress.dead_letter_count:
        parts.append(counted(progress.dead_letter_count, "dead letter"))
    if progress.late_dropped_count:
        parts.append(late_text(progress.late_dropped_count))
    if progress.state_row_count:
        parts.append(f"{progress.state_row_count:,} state rows")
    return " · ".join(parts)


def counted(count: int, noun: str) -> str:
    """Return a number and its noun: ``1 row``, ``1,200 rows``, ``2 batches``."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('ch') else 's'}"


def late_text(dropped_count: int) -> str:
    """Return the lower bound of dropped late rows."""
    return f"at least {dropped_count:,} late rows dropped"


def lag_text(rows: int, seconds: float | None) -> str:
    return f"lag {counted(rows, 'row')}" + ("" if seconds is None else f", {seconds_text(seconds)}")


def seconds_text(seconds: float) -> str:
    """Return ``0 s``, ``0.39 s``, ``12.3 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
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


def to_json(progress: Progress) -> dict[str, object]:
    """Return the JSON form, with rows per second."""
    return {**asdict(progress), "rows_per_s": round(progress.rows_per_s, 1)}


def from_json(value: Mapping[str, Any]) -> Progress:
    """Parse the JSON form; fields of a later release are ignored."""
    field_names = {field.name for field in fields(Progress)}
    known = {name: field for name, field in value.items() if name in field_names}
    for name in ("start", "end", "latest"):
        known[name] = read_offsets(known.get(name))
    return Progress(**known)


def _merged(sources: Iterable[Mapping[str, Any]], name: str, choose: Any) -> Offsets | None:
    """Merge the offsets of all sources; ``choose`` decides for a partition of several sources."""
    merged: Offsets = {}
    for source in sources:
        offsets = read_offsets(source.get(name))
        if offsets is None:
            return None
        for topic, partitions in offsets.items():
            merged_topic = merged.setdefault(topic, {})
            for number, offset in partitions.items():
                merged_topic[number] = choose(merged_topic.get(number, offset), offset)
    return merged or None


def _total_lag(end: Offsets | None, latest: Offsets | None) -> int | None:
    if end is None or latest is None:
        return None
    return sum(lag_by_partition(end, latest).values())


def _watermark(report: Mapping[str, Any]) -> str | None:
    """Return the watermark of the batch; None if there is none yet, which Spark writes as 1970."""
    text = report.get("eventTime", {}).get("watermark")
    return None if text is None or text.startswith("1970-01-01T00:00:00") else str(text)


def _timestamp_ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
