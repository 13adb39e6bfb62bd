"""Reader of the section ``[source]`` of a pipeline file."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.spec.model import SAMPLE, Source, ValueFormat, Watermark
from odradek.pipelines.spec.toml_table import Table

STARTS: Final = ("earliest", "latest", "group")
_NAMED_OFFSETS: Final = {"earliest": -2, "latest": -1}
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TOPIC_ONLY: Final = (
    *("brokers", "topics", "pattern", "assign", "start", "isolation", "headers", "value"),
    "max_per_trigger",
)


def resolve_path(text: str, directory: Path) -> str:
    """Return an absolute path, relative to the file's directory; URIs and absolute paths unchanged."""
    if _URI.match(text):
        return text
    return str((directory / Path(text).expanduser()).resolve())


def read_source(table: Table, directory: Path) -> Source:
    kind = table.choice("type", ("topic", "table"), "topic")
    source = _table_source(table, directory) if kind == "table" else _topic_source(table)
    table.finish()
    return source


def _table_source(table: Table, directory: Path) -> Source:
    path = table.text("path")
    table.require("path", path, "path is required for a table source")
    value_format = table.choice("format", ("delta", "parquet"), "delta")
    schema = table.text("schema")
    if value_format == "parquet":
        table.require("schema", schema, 'schema is required for Parquet, as in schema = "id bigint"')
    elif schema is not None:
        table.problem("schema", "schema is for Parquet only, as a Delta table has its own; remove it")
    table.reject(_TOPIC_ONLY, 'is for topics only; remove it, or set type = "topic"')
    return Source(
        type="table",
        path=resolve_path(path, directory) if path else None,
        format=value_format,
        schema=schema,
        watermark=_watermark(table),
        options=table.settings("options"),
    )


def _topic_source(table: Table) -> Source:
    brokers = table.text("brokers")
    table.require("brokers", brokers, 'brokers are required, as in brokers = "127.0.0.1:9092"')
    topics = table.strings("topics")
    pattern = table.text("pattern")
    assign = _assign(table)
    table.exclusive(("topics", "pattern", "assign"))
    if not any(key in table for key in ("topics", "pattern", "assign")):
        table.problem("topics", 'one of topics, pattern and assign is required, as in topics = ["orders"]')
    if pattern is not None and not _is_pattern(pattern):
        table.problem("pattern", f"pattern must be a regular expression, got {pattern!r}")
    start, offsets = _start(table)
    table.reject(("path", "format", "schema"), 'is for tables only; remove it, or set type = "table"')
    return Source(
        type="topic",
        brokers=brokers or "",
        topics=topics,
        pattern=pattern,
        assign=assign,
        start=start,
        start_offsets=offsets,
        max_per_trigger=table.integer("max_per_trigger", 1_000_000, least=1),
        isolation=table.choice("isolation", ("read_committed", "read_uncommitted"), "read_committed"),
        headers=table.boolean("headers", False),
        value=_value(table),
        watermark=_watermark(table),
        options=table.settings("options"),
    )


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _assign(table: Table) -> Mapping[str, tuple[int, ...]]:
    assignment: dict[str, tuple[int, ...]] = {}
    for topic, value in table.mapping("assign").items():
        partitions = value if isinstance(value, list) else [value]
        if not partitions or not all(type(number) is int and number >= 0 for number in partitions):
            table.problem("assign", f"assign must list partitions, as in {{{topic} = [0, 1]}}, got {value!r}")
        else:
            assignment[topic] = tuple(sorted(set(partitions)))
    return assignment


def _start(table: Table) -> tuple[str, Mapping[str, Mapping[int, int]]]:
    value = table.raw("start")
    if value is None or value in STARTS:
        return value or "earliest", {}
    if isinstance(value, dict):
        return "offsets", _offsets(table, value)
    time = value if isinstance(value, datetime.datetime) else _parse_time(value)
    if time is None:
        allowed = "earliest, latest, group, a time such as 2026-01-31T12:00:00Z, or {orders = {0 = 12}}"
        table.problem("start", f"start must be {allowed}, got {value!r}")
        return "earliest", {}
    return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).isoformat(), {}


def _parse_time(value: Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _offsets(table: Table, value: Mapping[str, Any]) -> Mapping[str, Mapping[int, int]]:
    offsets_by_topic: dict[str, dict[int, int]] = {}
    for topic, offsets in value.items():
        try:
            by_partition = {int(partition): _offset(offset) for partition, offset in offsets.items()}
        except (AttributeError, TypeError, ValueError):
            table.problem("start", f"start must have offsets by partition, as in {{{topic} = {{0 = 12}}}}")
            continue
        offsets_by_topic[topic] = by_partition
    return offsets_by_topic


def _offset(value: Any) -> int:
    if value in _NAMED_OFFSETS:
        return _NAMED_OFFSETS[value]
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _value(table: Table) -> ValueFormat:
    inner = table.table("value")
    if inner is None:
        return ValueFormat()
    value_format = inner.choice("format", ("bytes", "text", "json"), "bytes")
    schema = inner.text("schema")
    if value_format == "json":
        inner.require("schema", schema, f'schema is required: a DDL schema, or schema = "{SAMPLE}"')
    elif schema is not None:
        inner.problem("schema", f'schema requires format = "json", but format is {value_format}')
    sample_rows = inner.integer("sample_rows", 1000, least=1)
    inner.finish()
    return ValueFormat(value_format, schema, sample_rows)


def _watermark(table: Table) -> Watermark | None:
    inner = table.table("watermark")
    if inner is None:
        return None
    column = inner.text("column")
    inner.require("column", column, "column is required: the event-time column")
    inner.require("delay", "delay" in inner, 'delay is required, as in delay = "10 minutes"')
    delay = inner.duration("delay", "0 seconds")
    inner.finish()
    return Watermark(column or "", delay)
