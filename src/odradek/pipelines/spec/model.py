"""What a pipeline's file says, as plain frozen values. ``spec.read_spec`` makes them; nothing here decides.

Paths are absolute or URIs, intervals are texts that Spark reads, and every default has been put in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SAMPLE: Final = "sample"
"""The schema of JSON values that is found by looking at records."""


@dataclass(frozen=True)
class ValueFormat:
    """How the value of a record is read: ``bytes``, ``text`` or ``json``."""

    format: str = "bytes"
    schema: str | None = None
    """A schema in DDL, or ``sample``; None unless the format is JSON."""
    sample_rows: int = 1000


@dataclass(frozen=True)
class Watermark:
    """How late a row may be by the time in a column."""

    column: str
    delay: str


@dataclass(frozen=True)
class Source:
    """Where rows come from: topics, or a table."""

    type: str = "topic"
    brokers: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assign: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    start: str = "earliest"
    """``earliest``, ``latest``, ``group``, a time in ISO 8601 with its zone, or ``offsets``."""
    start_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Where ``start`` is ``offsets``: by topic and partition; -2 is the earliest, -1 the latest."""
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
    """A Python function of a DataFrame, or a query over the view ``source``; or neither."""

    module: str | None = None
    function: str | None = None
    sql: Path | None = None


@dataclass(frozen=True)
class Sink:
    """Where rows go: ``topic``, ``delta``, ``parquet``, ``console`` or ``noop``."""

    type: str = "noop"
    path: str | None = None
    mode: str = "append"
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    compact_every: int = 0
    vacuum_hours: int = 168
    topic: str | None = None
    brokers: str = ""
    """The brokers of a topic sink, and of the topic of dead letters."""
    key: str | None = None
    guarantee: str = "exactly_once"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeadLetter:
    """Where rows go whose value cannot be read, and how many of them are too many."""

    topic: str
    max_ratio: float = 1.0


@dataclass(frozen=True)
class Observe:
    """By what the pipeline is watched."""

    group: str
    metrics_port: int | None = None


@dataclass(frozen=True)
class Restart:
    """How often a pipeline that fails is started again while it makes no progress."""

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
    """The pace of a continuous run."""
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
        """Where the file lies, and the files it names."""
        return self.file.parent

    @property
    def lease_brokers(self) -> str | None:
        """The brokers that know who runs this pipeline; None if none of its ends is a topic."""
        return self.source.brokers or self.sink.brokers or None


def replaces_rows(spec: Spec) -> bool:
    """Whether changed rows replace those in a table: Spark gives such batches to a function only."""
    return spec.sink.type == "delta" and spec.sink.mode == "update"
