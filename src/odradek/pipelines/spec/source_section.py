"""The section ``[source]`` of a pipeline's file, from its table to its value."""

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


def place(text: str, directory: Path) -> str:
    """A path beside the file, made absolute; URIs and absolute paths as they are."""
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
    table.require("path", path, "has no path; a table is read from a path")
    form = table.choice("format", ("delta", "parquet"), "delta")
    schema = table.text("schema")
    if form == "parquet":
        table.require("schema", schema, 'has no schema; a Parquet stream needs one, as schema = "id bigint"')
    elif schema is not None:
        table.problem("schema", "schema is for Parquet only: a Delta table knows its own; remove it")
    table.refuse(_TOPIC_ONLY, 'is for topics; remove it, or set type = "topic"')
    return Source(
        type="table",
        path=place(path, directory) if path else None,
        format=form,
        schema=schema,
        watermark=_watermark(table),
        options=table.settings("options"),
    )


def _topic_source(table: Table) -> Source:
    brokers = table.text("brokers")
    table.require("brokers", brokers, 'has no brokers; name some, as brokers = "127.0.0.1:9092"')
    topics = table.texts("topics")
    pattern = table.text("pattern")
    assign = _assign(table)
    table.exclusive(("topics", "pattern", "assign"))
    if not any(key in table for key in ("topics", "pattern", "assign")):
        table.problem("topics", 'names no topics; add topics = ["orders"], or pattern, or assign')
    if pattern is not None and not _is_pattern(pattern):
        table.problem("pattern", f"pattern is {pattern!r}, which is no regular expression")
    start, offsets = _start(table)
    table.refuse(("path", "format", "schema"), 'is for tables; remove it, or set type = "table"')
    return Source(
        type="topic",
        brokers=brokers or "",
        topics=topics,
        pattern=pattern,
        assign=assign,
        start=start,
        start_offsets=offsets,
        max_per_trigger=table.whole("max_per_trigger", 1_000_000, least=1),
        isolation=table.choice("isolation", ("read_committed", "read_uncommitted"), "read_committed"),
        headers=table.flag("headers", False),
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
    found: dict[str, tuple[int, ...]] = {}
    for topic, given in table.mapping("assign").items():
        partitions = given if isinstance(given, list) else [given]
        if not partitions or not all(type(one) is int and one >= 0 for one in partitions):
            table.problem("assign", f"assign names partitions as {{{topic} = [0, 1]}}")
        else:
            found[topic] = tuple(sorted(set(partitions)))
    return found


def _start(table: Table) -> tuple[str, Mapping[str, Mapping[int, int]]]:
    given = table.raw("start")
    if given is None or given in STARTS:
        return given or "earliest", {}
    if isinstance(given, dict):
        return "offsets", _offsets(table, given)
    at = given if isinstance(given, datetime.datetime) else _time(given)
    if at is None:
        wanted = "earliest, latest, group, a time such as 2026-01-31T12:00:00Z, or {orders = {0 = 12}}"
        table.problem("start", f"start is {given!r}; it must be {wanted}")
        return "earliest", {}
    return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).isoformat(), {}


def _time(given: Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(given)
    except (TypeError, ValueError):
        return None


def _offsets(table: Table, given: Mapping[str, Any]) -> Mapping[str, Mapping[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, offsets in given.items():
        try:
            by_partition = {int(partition): _offset(offset) for partition, offset in offsets.items()}
        except (AttributeError, TypeError, ValueError):
            table.problem("start", f"start gives offsets by partition, as {{{topic} = {{0 = 12, 1 = 0}}}}")
            continue
        found[topic] = by_partition
    return found


def _offset(given: Any) -> int:
    if given in _NAMED_OFFSETS:
        return _NAMED_OFFSETS[given]
    if type(given) is not int or given < 0:
        raise ValueError(given)
    return given


def _value(table: Table) -> ValueFormat:
    inner = table.table("value")
    if inner is None:
        return ValueFormat()
    form = inner.choice("format", ("bytes", "text", "json"), "bytes")
    schema = inner.text("schema")
    if form == "json":
        inner.require("schema", schema, f'has no schema; give it in DDL, or schema = "{SAMPLE}"')
    elif schema is not None:
        inner.problem("schema", f'schema is for format = "json", and format is {form}')
    sample_rows = inner.whole("sample_rows", 1000, least=1)
    inner.finish()
    return ValueFormat(form, schema, sample_rows)


def _watermark(table: Table) -> Watermark | None:
    inner = table.table("watermark")
    if inner is None:
        return None
    column = inner.text("column")
    inner.require("column", column, "has no column; name the one that holds the time of a row")
    inner.require("delay", "delay" in inner, 'has no delay; give one, as delay = "10 minutes"')
    delay = inner.span("delay", "0 seconds")
    inner.finish()
    return Watermark(column or "", delay)
