"""Readers of the sections of a pipeline file, except ``[source]``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from odradek.pipelines.spec.durations import duration_ms
from odradek.pipelines.spec.model import DeadLetter, Observe, Restart, Sink, Source, Transform
from odradek.pipelines.spec.source_section import resolve_path
from odradek.pipelines.spec.toml_table import Table

AVAILABLE_NOW: Final = "available-now"
DEFAULT_TRIGGER: Final = "5 seconds"
MODES: Final = ("append", "complete", "update")
GUARANTEES: Final = ("exactly_once", "at_least_once")
SINKS: Final = ("topic", "delta", "parquet", "console", "noop")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")


def read_name(table: Table) -> str:
    name = table.text("name")
    table.require("name", name, 'name is required, as in name = "orders-to-lake"')
    if name is not None and _NAME.fullmatch(name) is None:
        table.problem("name", f"name must consist of a-z, 0-9, dots, _ and -, got {name!r}")
    return name or "unnamed"


def read_trigger(table: Table) -> tuple[str, bool]:
    """Return the trigger interval of a continuous run, and True if a run ends by itself by default."""
    if table.raw("trigger") == AVAILABLE_NOW:
        return DEFAULT_TRIGGER, True
    return table.duration("trigger", DEFAULT_TRIGGER), False


def read_transform(table: Table, directory: Path) -> Transform:
    entry_point = table.text("module")
    sql = table.text("sql")
    table.exclusive(("module", "sql"))
    if entry_point is None and sql is None:
        table.problem("", 'module = "file:function" or sql = "file.sql" is required, or remove the section')
    table.finish()
    module, colon, function = (entry_point or "").partition(":")
    parts = [*module.split("."), function]
    if entry_point is not None and not (colon and all(part.isidentifier() for part in parts)):
        table.problem("module", f'module must be like "orders_pipeline:clean", got {entry_point!r}')
        return Transform()
    return Transform(module or None, function or None, directory / sql if sql else None)


def read_sink(table: Table, source: Source, directory: Path, *, has_dead_letters: bool) -> Sink:
    kind = table.choice("type", SINKS, "noop")
    table.require("type", "type" in table, f"type is required: one of {', '.join(SINKS)}")
    is_file = kind in ("delta", "parquet")
    path, topic = table.text("path"), table.text("topic")
    needs_brokers = kind == "topic" or has_dead_letters
    brokers = table.text("brokers") if needs_brokers else None
    table.reject(("brokers",), f'requires a topic sink or dead letters, but type is "{kind}"; remove it')
    if is_file:
        table.require("path", path, f"path is required for a {kind} sink")
    if kind == "topic":
        table.require("topic", topic, "topic is required for a topic sink")
        table.require("brokers", brokers or source.brokers, "brokers are required, as the source has none")
    sink = Sink(
        type=kind,
        path=resolve_path(path, directory) if path and is_file else None,
        mode=table.choice("mode", MODES, "append"),
        keys=table.strings("keys"),
        partition_by=table.strings("partition_by"),
        compact_every=table.integer("compact_every", 0),
        vacuum_hours=table.integer("vacuum_hours", 168, least=1),
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
    table.require("topic", topic, "topic is required: the topic for records that cannot be parsed")
    max_ratio = table.ratio("max_ratio", 1.0)
    table.finish()
    return DeadLetter(topic, max_ratio) if topic else None


def read_observe(table: Table, name: str) -> Observe:
    group = table.text("group", name)
    port = table.integer("metrics_port", 0, least=1)
    if port > 65_535:
        table.problem("metrics_port", f"metrics_port must be <= 65535, got {port}")
    table.finish()
    return Observe(group or name, port or None)


def read_restart(table: Table) -> Restart:
    attempts = table.integer("attempts", 5)
    backoff = table.duration("backoff", "1 second", least_ms=1)
    table.finish()
    return Restart(attempts, duration_ms(backoff) or 1000)
