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
from odradek.pipelines.spec import checks, sections, source_section
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
    name = sections.read_name(pipeline)
    trigger, once = sections.read_trigger(pipeline)
    checkpoint = pipeline.text("checkpoint") or f"odradek-pipelines/{name}"
    pipeline.finish()
    source = source_section.read_source(tables["source"], file.parent)
    has_dead_letters = "dead_letter" in values
    return Spec(
        file=file,
        name=name,
        checkpoint=source_section.resolve_path(checkpoint, file.parent),
        trigger=trigger,
        once_by_default=once,
        source=source,
        transform=(
            sections.read_transform(tables["transform"], file.parent)
            if "transform" in values
            else Transform()
        ),
        sink=sections.read_sink(tables["sink"], source, file.parent, has_dead_letters=has_dead_letters),
        dead_letter=sections.read_dead_letter(tables["dead_letter"]) if has_dead_letters else None,
        observe=sections.read_observe(tables["observe"], name),
        restart=sections.read_restart(tables["restart"]),
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
