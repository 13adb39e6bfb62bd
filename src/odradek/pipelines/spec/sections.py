"""The sections of a pipeline's file but ``[source]``, each from its table to its value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from odradek.pipelines.spec.durations import span_ms
from odradek.pipelines.spec.model import DeadLetter, Observe, Restart, Sink, Source, Transform
from odradek.pipelines.spec.source_section import place
from odradek.pipelines.spec.toml_table import Table

AVAILABLE_NOW: Final = "available-now"
DEFAULT_TRIGGER: Final = "5 seconds"
MODES: Final = ("append", "complete", "update")
GUARANTEES: Final = ("exactly_once", "at_least_once")
SINKS: Final = ("topic", "delta", "parquet", "console", "noop")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")


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
