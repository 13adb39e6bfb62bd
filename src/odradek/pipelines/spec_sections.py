"""The sections of a pipeline's file, each from its table to its value."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.durations import span_ms
from odradek.pipelines.spec_parts import (
    SAMPLE,
    DeadLetter,
    Observe,
    Restart,
    Sink,
    Source,
    Transform,
    ValueFormat,
    Watermark,
)
from odradek.pipelines.spec_table import Table

AVAILABLE_NOW: Final = "available-now"
DEFAULT_TRIGGER: Final = "5 seconds"
MODES: Final = ("append", "complete", "update")
GUARANTEES: Final = ("exactly_once", "at_least_once")
SINKS: Final = ("topic", "delta", "parquet", "console", "noop")
STARTS: Final = ("earliest", "latest", "group")
_NAMED_OFFSETS: Final = {"earliest": -2, "latest": -1}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
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


def read_name(table: Table) -> str:
    name = table.text("name")
    table.require("name", name, 'has no name; give it one, as name = "orders-to-lake"')
    if name is not None and _NAME.fullmatch(name) is None:
        table.problem("name", f"name is {name!r}; use lower-case letters, digits, dots, _ and - only")
    return name or "unnamed"


def read_trigger(table: Table) -> tuple[str, bool]:
    """The pace of a continuous run, and whether a run ends by itself unless told otherwise."""
    if table.raw("trigger") == AVAILABLE_NOW:
        return DEFAULT_TRIGGER, True
    return table.span("trigger", DEFAULT_TRIGGER), False


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


def read_transform(table: Table, directory: Path) -> Transform:
    named = table.text("module")
    sql = table.text("sql")
    table.exclusive(("module", "sql"))
    if named is None and sql is None:
        table.problem("", 'is empty; name module = "file:function" or sql = "file.sql", or remove it')
    table.finish()
    module, colon, function = (named or "").partition(":")
    parts = [*module.split("."), function]
    if named is not None and not (colon and all(part.isidentifier() for part in parts)):
        table.problem("module", f'module is {named!r}; it must be like "orders_pipeline:clean"')
        return Transform()
    return Transform(module or None, function or None, directory / sql if sql else None)


def read_sink(table: Table, source: Source, directory: Path, *, has_dead_letters: bool) -> Sink:
    kind = table.choice("type", SINKS, "noop")
    table.require("type", "type" in table, f"has no type; it is one of {', '.join(SINKS)}")
    is_file = kind in ("delta", "parquet")
    path, topic = table.text("path"), table.text("topic")
    needs_brokers = kind == "topic" or has_dead_letters
    brokers = table.text("brokers") if needs_brokers else None
    table.refuse(("brokers",), f'is for a topic sink or dead letters, and type is "{kind}"; remove it')
    if is_file:
        table.require("path", path, f"has no path; a {kind} sink writes to a path")
    if kind == "topic":
        table.require("topic", topic, "has no topic; a topic sink writes to a topic")
        table.require("brokers", brokers or source.brokers, "has no brokers, and no topic is read that has")
    sink = Sink(
        type=kind,
        path=place(path, directory) if path and is_file else None,
        mode=table.choice("mode", MODES, "append"),
        keys=table.texts("keys"),
        partition_by=table.texts("partition_by"),
        compact_every=table.whole("compact_every", 0),
        vacuum_hours=table.whole("vacuum_hours", 168, least=1),
        topic=topic,
        brokers=(brokers or source.brokers) if needs_brokers else "",
        key=table.text("key"),
        guarantee=table.choice("guarantee", GUARANTEES, _default_guarantee(kind)),
        options=table.settings("options"),
    )
    table.finish()
    return sink


def _default_guarantee(kind: str) -> str:
    return "exactly_once" if kind in ("topic", "delta") else "at_least_once"


def read_dead_letter(table: Table) -> DeadLetter | None:
    topic = table.text("topic")
    table.require("topic", topic, "has no topic; name the one that takes rows nobody can read")
    max_ratio = table.ratio("max_ratio", 1.0)
    table.finish()
    return DeadLetter(topic, max_ratio) if topic else None


def read_observe(table: Table, name: str) -> Observe:
    group = table.text("group", name)
    port = table.whole("metrics_port", 0, least=1)
    if port > 65_535:
        table.problem("metrics_port", f"metrics_port is {port}; ports end at 65535")
    table.finish()
    return Observe(group or name, port or None)


def read_restart(table: Table) -> Restart:
    attempts = table.whole("attempts", 5)
    backoff = table.span("backoff", "1 second", least_ms=1)
    table.finish()
    return Restart(attempts, span_ms(backoff) or 1000)
