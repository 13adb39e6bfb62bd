"""The content of a pipeline file as frozen values, created by ``reader.read_spec``.

Paths are absolute or URIs, durations are strings that Spark parses, and all defaults are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SAMPLE: Final = "sample"
"""Schema option: infer the schema of JSON values from sampled records."""


@dataclass(frozen=True)
class ValueFormat:
    """Format of record values: ``bytes``, ``text`` or ``json``."""

    format: str = "bytes"
    schema: str | None = None
    """A DDL schema, or ``sample``; None unless the format is JSON."""
    sample_rows: int = 1000


@dataclass(frozen=True)
class Watermark:
    """Event-time column, and how late its rows may be."""

    column: str
    delay: str


@dataclass(frozen=True)
class Source:
    """Source of a pipeline: topics, or a table."""

    type: str = "topic"
    brokers: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assign: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    start: str = "earliest"
    """``earliest``, ``latest``, ``group``, an ISO 8601 time with its zone, or ``offsets``."""
    start_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """If ``start`` is ``offsets``: by topic and partition; -2 is earliest, -1 latest."""
    max_per_trigger: int = 1_000_000
    isolation: str = "read_committed"
    headers: bool = False
    value: ValueFormat = field(default_factory=ValueFormat)
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    format: str = "delta"
    schema: str | None = None
    """The columns of a Parquet source, in DDL."""


@dataclass(frozen=True)
class Transform:
    """A Python function of a DataFrame, or an SQL query over the view ``source``; or neither."""

    module: str | None = None
    function: str | None = None
    sql: Path | None = None


@dataclass(frozen=True)
class Sink:
    """Sink of a pipeline: ``topic``, ``delta``, ``parquet``, ``console`` or ``noop``."""

    type: str = "noop"
    path: str | None = None
    mode: str = "append"
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    compact_every: int = 0
    vacuum_hours: int = 168
    topic: str | None = None
    brokers: str = ""
    """The brokers of a topic sink, and of the dead-letter topic."""
    key: str | None = None
    guarantee: str = "exactly_once"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeadLetter:
    """Topic for records that cannot be parsed, and the maximum ratio of such records."""

    topic: str
    max_ratio: float = 1.0


@dataclass(frozen=True)
class Observe:
    """Consumer group and metrics port, for monitoring."""

    group: str
    metrics_port: int | None = None


@dataclass(frozen=True)
class Restart:
    """Restarts of a failing pipeline without progress: maximum attempts and initial backoff."""

    attempts: int = 5
    backoff_ms: int = 1000


@dataclass(frozen=True)
class Spec:
    """One pipeline."""

    file: Path
    name: str
    checkpoint: str
    """An absolute path, or a URI."""
    trigger: str
    """Trigger interval of a continuous run."""
    once_by_default: bool
    source: Source
    transform: Transform
    sink: Sink
    dead_letter: DeadLetter | None
    observe: Observe
    restart: Restart
    spark: Mapping[str, str]

    @property
    def directory(self) -> Path:
        """Directory of the pipeline file."""
        return self.file.parent

    @property
    def lease_brokers(self) -> str | None:
        """The brokers that hold the pipeline's lease; None if neither source nor sink is a topic."""
        return self.source.brokers or self.sink.brokers or None


def replaces_rows(spec: Spec) -> bool:
    """Return True for upserts into a table, which Spark supports with ``foreachBatch`` only."""
    return spec.sink.type == "delta" and spec.sink.mode == "update"
