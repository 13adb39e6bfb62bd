"""Reading of pipeline files: a TOML file becomes a validated ``Spec``, or one error with all problems.

Validation uses the file, the files it names and the environment; it sends no request and starts no Spark.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from odradek.model.errors import ConfigError
from odradek.pipelines.spec import checks
from odradek.pipelines.spec.durations import duration_ms
from odradek.pipelines.spec.model import (
    SAMPLE,
    DeadLetter,
    Observe,
    Restart,
    Sink,
    Source,
    Spec,
    Transform,
    ValueFormat,
    Watermark,
)
from odradek.pipelines.spec.source_section import read_source, resolve_path
from odradek.pipelines.spec.toml_lines import KeyPath, key_lines
from odradek.pipelines.spec.toml_table import Problems, Table

__all__ = [
    "SAMPLE",
    "DeadLetter",
    "Observe",
    "Restart",
    "Sink",
    "Source",
    "Spec",
    "SpecError",
    "Transform",
    "ValueFormat",
    "Watermark",
    "parse_spec",
    "read_spec",
]

SECTIONS: Final = ("pipeline", "source", "transform", "sink", "dead_letter", "observe", "restart", "spark")
AVAILABLE_NOW: Final = "available-now"
DEFAULT_TRIGGER: Final = "5 seconds"
MODES: Final = ("append", "complete", "update")
GUARANTEES: Final = ("exactly_once", "at_least_once")
SINKS: Final = ("topic", "delta", "parquet", "console", "noop")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
_VARIABLE: Final = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")


class SpecError(ConfigError):
    """Raised for an invalid pipeline file; ``problems`` are lines such as ``orders.toml:7: …``."""

    def __str__(self) -> str:
        return "\n".join(self.problems)


def read_spec(path: Path, environment: Mapping[str, str] | None = None) -> Spec:
    """Return the pipeline of a file; raise SpecError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError([f"{path}: file not found{_nearest_file(path)}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([f"{path}: cannot be read: {error}"]) from None
    return parse_spec(text, path.resolve(), os.environ if environment is None else environment)


def _nearest_file(path: Path) -> str:
    """Return a suggestion for a file that does not exist."""
    names = [file.name for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    nearest = get_close_matches(path.name, names, 1)
    if nearest:
        return f"; did you mean {path.with_name(nearest[0])}?"
    return "; create one with odradek pipeline new"


def parse_spec(text: str, file: Path, environment: Mapping[str, str]) -> Spec:
    """Return the pipeline of a TOML text; relative paths are relative to ``file``."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError([_syntax_problem(file.name, str(error))]) from None
    problems = Problems(file.name, key_lines(text))
    spec = _read(_substituted(values, (), environment, problems), file, problems)
    messages = problems.in_order()
    if messages:
        raise SpecError(messages)
    return spec


def _syntax_problem(name: str, message: str) -> str:
    location = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if location is None:
        return f"{name}: {message}"
    return f"{name}:{location[1]}: {message[: location.start()]} (column {location[2]})"


def _substituted(value: Any, path: KeyPath, environment: Mapping[str, str], problems: Problems) -> Any:
    """Replace ``${NAME}`` by environment variables; ``$${NAME}`` becomes ``${NAME}``."""
    if isinstance(value, dict):
        return {key: _substituted(inner, (*path, key), environment, problems) for key, inner in value.items()}
    if isinstance(value, list):
        return [
            _substituted(inner, (*path, position), environment, problems)
            for position, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if match[2] not in environment:
            problems.add(
                path, f"environment variable {match[2]} is not set; set it, or write $${{{match[2]}}}"
            )
            return "unset"
        return environment[match[2]]

    return _VARIABLE.sub(replacement, value)


def _read(values: Mapping[str, Any], file: Path, problems: Problems) -> Spec:
    top = Table(values, (), problems)
    tables = {name: _section(top, name, problems) for name in SECTIONS}
    for name in values:
        if name not in SECTIONS:
            problems.add((name,), f"unknown section [{name}]; sections are {', '.join(SECTIONS)}")
    for name in ("pipeline", "source", "sink"):
        if name not in values:
            problems.add((), f"section [{name}] is required")
    spec = _assembled(tables, values, file)
    for path, message in _findings(spec, values):
        problems.add(path, message)
    return spec


def _section(top: Table, name: str, problems: Problems) -> Table:
    return top.table(name) or Table({}, (name,), Problems("", {}))


def _assembled(tables: Mapping[str, Table], values: Mapping[str, Any], file: Path) -> Spec:
    pipeline = tables["pipeline"]
    name = read_name(pipeline)
    trigger, once = read_trigger(pipeline)
    checkpoint = pipeline.text("checkpoint") or f"odradek-pipelines/{name}"
    pipeline.finish()
    source = read_source(tables["source"], file.parent)
    has_dead_letters = "dead_letter" in values
    return Spec(
        file=file,
        name=name,
        checkpoint=resolve_path(checkpoint, file.parent),
        trigger=trigger,
        once_by_default=once,
        source=source,
        transform=(
            read_transform(tables["transform"], file.parent) if "transform" in values else Transform()
        ),
        sink=read_sink(tables["sink"], source, file.parent, has_dead_letters=has_dead_letters),
        dead_letter=read_dead_letter(tables["dead_letter"]) if has_dead_letters else None,
        observe=read_observe(tables["observe"], name),
        restart=read_restart(tables["restart"]),
        spark=tables["spark"].all_settings(),
    )


def _findings(spec: Spec, values: Mapping[str, Any]) -> list[checks.Finding]:
    sink_keys = values.get("sink")
    findings = [
        *checks.sink_findings(spec.sink, frozenset(sink_keys if isinstance(sink_keys, dict) else ())),
        *checks.loop_findings(spec.source, spec.sink),
        *checks.spark_findings(dict(spec.spark), spec.sink),
        *checks.transform_findings(spec.transform, spec.directory),
    ]
    if spec.dead_letter is not None:
        findings += checks.dead_letter_findings(spec.dead_letter, spec.source, spec.sink)
    return findings


# Sections, except ``[source]``.


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
