"""``read_spec``: a pipeline's TOML file as a checked ``Spec``, or one error with everything wrong in it.

Checking looks at the file, the files it names and the environment; it asks no broker and starts no Spark.
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
    """A pipeline's file that cannot be used; ``problems`` are lines such as ``orders.toml:7: …``."""

    def __str__(self) -> str:
        return "\n".join(self.problems)


def read_spec(path: Path, environment: Mapping[str, str] | None = None) -> Spec:
    """The pipeline that a file describes."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError([f"{path}: there is no such file{_nearest_file(path)}"]) from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise SpecError([f"{path}: it cannot be read: {wrong}"]) from None
    return parse_spec(text, path.resolve(), os.environ if environment is None else environment)


def _nearest_file(path: Path) -> str:
    """Suggest a file in place of one that does not exist."""
    names = [one.name for one in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    nearest = get_close_matches(path.name, names, 1)
    return f"; did you mean {path.with_name(nearest[0])}?" if nearest else "; odradek pipeline new makes one"


def parse_spec(text: str, file: Path, environment: Mapping[str, str]) -> Spec:
    """The pipeline that a text describes, with paths beside ``file``."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise SpecError([_syntax_problem(file.name, str(wrong))]) from None
    problems = Problems(file.name, key_lines(text))
    spec = _read(_substituted(values, (), environment, problems), file, problems)
    found = problems.in_order()
    if found:
        raise SpecError(found)
    return spec


def _syntax_problem(name: str, words: str) -> str:
    place = re.search(r" \(at line (\d+), column (\d+)\)$", words)
    if place is None:
        return f"{name}: {words}"
    return f"{name}:{place[1]}: {words[: place.start()]} (column {place[2]})"


def _substituted(value: Any, path: KeyPath, environment: Mapping[str, str], problems: Problems) -> Any:
    """The value with ``${NAME}`` replaced by the environment's; ``$${NAME}`` stays as ``${NAME}``."""
    if isinstance(value, dict):
        return {key: _substituted(inner, (*path, key), environment, problems) for key, inner in value.items()}
    if isinstance(value, list):
        return [
            _substituted(inner, (*path, position), environment, problems)
            for position, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        if found[2] not in environment:
            problems.add(
                path, f"the environment has no variable {found[2]}; set it, or write $${{{found[2]}}}"
            )
            return "unset"
        return environment[found[2]]

    return _VARIABLE.sub(replaced, value)


def _read(values: Mapping[str, Any], file: Path, problems: Problems) -> Spec:
    top = Table(values, (), problems)
    tables = {name: _section(top, name, problems) for name in SECTIONS}
    for name in values:
        if name not in SECTIONS:
            problems.add((name,), f"[{name}] is unknown; sections are {', '.join(SECTIONS)}")
    for name in ("pipeline", "source", "sink"):
        if name not in values:
            problems.add((), f"there is no [{name}]; a pipeline has one")
    spec = _assembled(tables, values, file)
    for path, words in _findings(spec, values):
        problems.add(path, words)
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
        checkpoint=source_section.place(checkpoint, file.parent),
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
    given = values.get("sink")
    found = [
        *checks.sink_findings(spec.sink, frozenset(given if isinstance(given, dict) else ())),
        *checks.loop_findings(spec.source, spec.sink),
        *checks.spark_findings(dict(spec.spark), spec.sink),
        *checks.transform_findings(spec.transform, spec.directory),
    ]
    if spec.dead_letter is not None:
        found += checks.dead_letter_findings(spec.dead_letter, spec.source, spec.sink)
    return found
