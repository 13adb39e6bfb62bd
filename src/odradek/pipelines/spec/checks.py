"""What in a pipeline's file does not go together, and files it names that are not there or not usable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from odradek.pipelines.spec.model import DeadLetter, Sink, Source, Transform
from odradek.pipelines.spec.toml_lines import KeyPath

Finding = tuple[KeyPath, str]
_DELTA_KEYS: Final = ("keys", "compact_every", "vacuum_hours")


def sink_findings(sink: Sink, given: frozenset[str]) -> Iterator[Finding]:
    """Keys that the sink's type has no use for, and modes or guarantees that it cannot give."""
    if sink.type != "topic":
        yield from _useless(given, ("topic", "key"), f'is for a topic sink, and type is "{sink.type}"')
    if sink.type != "delta":
        yield from _useless(given, _DELTA_KEYS, f'is for a Delta table, and type is "{sink.type}"')
    if sink.type not in ("delta", "parquet"):
        words = f'is for tables and files, and type is "{sink.type}"'
        yield from _useless(given, ("path", "partition_by"), words)
    yield from _mode_findings(sink)
    yield from _guarantee_findings(sink)


def _useless(given: frozenset[str], keys: tuple[str, ...], words: str) -> Iterator[Finding]:
    for key in keys:
        if key in given:
            yield ("sink", key), f"[sink] {key} {words}; remove it"


def _mode_findings(sink: Sink) -> Iterator[Finding]:
    if sink.type == "parquet" and sink.mode != "append":
        yield (
            ("sink", "mode"),
            f"[sink] mode {sink.mode} is nothing for files, which are only added; use delta",
        )
    if sink.type == "delta" and sink.mode == "update" and not sink.keys:
        yield (
            ("sink", "mode"),
            '[sink] mode update replaces rows of a table by their keys: name them, as keys = ["id"]',
        )
    if sink.type == "delta" and sink.mode == "complete" and sink.keys:
        yield ("sink", "keys"), "[sink] keys replace single rows, and mode complete replaces all; keep one"
    if sink.type == "topic" and sink.mode == "update":
        words = "use append, complete, or a Delta table with keys"
        yield (
            ("sink", "mode"),
            f"[sink] mode update: Spark gives changed rows to no sink written in Python; {words}",
        )


def _guarantee_findings(sink: Sink) -> Iterator[Finding]:
    if sink.guarantee != "exactly_once" or sink.type in ("topic", "delta"):
        return
    if sink.type == "parquet":
        words = (
            "Parquet files are exactly once only for readers of Spark's _spark_metadata; "
            'use type = "delta", or guarantee = "at_least_once"'
        )
    else:
        words = f'a {sink.type} sink keeps nothing exactly once; use guarantee = "at_least_once"'
    yield ("sink", "guarantee"), f"[sink] guarantee: {words}"


def dead_letter_findings(dead: DeadLetter, source: Source, sink: Sink) -> Iterator[Finding]:
    """Dead letters need values that are parsed, rows that are only added, and a sink that takes them."""
    if source.value.format != "json":
        words = 'are rows whose value is no JSON; set value = {format = "json", schema = …} in [source]'
        yield ("dead_letter",), f"[dead_letter] {words}"
    if sink.mode == "complete":
        words = "cannot be sent where the sink writes its whole result anew each time (mode complete)"
        yield ("dead_letter",), f"[dead_letter] rows {words}"
    if sink.type not in ("topic", "delta"):
        yield ("dead_letter",), f'[dead_letter] needs a sink of type topic or delta, and it is "{sink.type}"'
    if sink.type == "topic" and sink.topic == dead.topic:
        yield ("dead_letter", "topic"), "[dead_letter] topic is the sink's own; name another one"
    if dead.topic in source.topics:
        yield ("dead_letter", "topic"), "[dead_letter] topic is read by the pipeline itself; name another one"


def loop_findings(source: Source, sink: Sink) -> Iterator[Finding]:
    """A pipeline that would read what it writes."""
    if sink.type == "topic" and sink.topic in source.topics and sink.brokers == source.brokers:
        yield ("sink", "topic"), f"[sink] topic {sink.topic} is also read: the pipeline would feed itself"
    if source.path is not None and source.path == sink.path:
        yield ("sink", "path"), "[sink] path is also read: the pipeline would feed itself"


def spark_findings(settings: dict[str, str], sink: Sink) -> Iterator[Finding]:
    """Settings of Spark that would break what the file promises."""
    if sink.guarantee != "exactly_once":
        return
    if settings.get("spark.speculation", "false").lower() == "true":
        words = "two attempts of one task would fence each other; remove it, or use at_least_once"
        yield (
            ("spark", "spark.speculation"),
            f"[spark] spark.speculation with guarantee exactly_once: {words}",
        )
    adaptive = "spark.sql.adaptive.streaming.stateless.enabled"
    if settings.get(adaptive, "false").lower() == "true":
        words = "a batch that is run again must be cut as before; remove it, or use at_least_once"
        yield ("spark", adaptive), f"[spark] {adaptive} with guarantee exactly_once: {words}"


def transform_findings(transform: Transform, directory: Path) -> Iterator[Finding]:
    """Files and functions that are not there."""
    if transform.sql is not None and not transform.sql.is_file():
        yield ("transform", "sql"), f"[transform] sql: there is no file {transform.sql}"
    elif transform.sql is not None and not transform.sql.read_text(encoding="utf-8").strip():
        yield ("transform", "sql"), f"[transform] sql: {transform.sql} is empty"
    if transform.module is None or transform.function is None:
        return
    file = directory.joinpath(*transform.module.split(".")).with_suffix(".py")
    if file.is_file():
        problem = function_problem(file, transform.function)
    elif _is_installed(transform.module, directory):
        problem = None
    else:
        problem = f"there is no {file}, and no module {transform.module} is installed"
    if problem is not None:
        yield ("transform", "module"), f"[transform] module: {problem}"


def _is_installed(module: str, directory: Path) -> bool:
    """Only the outermost package is looked for: looking deeper would run its code."""
    outermost = module.partition(".")[0]
    if PathFinder.find_spec(outermost, [str(directory)]) is not None:
        return True
    try:
        return find_spec(outermost) is not None
    except ValueError:
        # A module that runs as the program itself has no place.
        return False


def function_problem(file: Path, function: str) -> str | None:
    """Why a file has no such function; it is read, not run."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    except SyntaxError as wrong:
        return f"{file}:{wrong.lineno}: {wrong.msg}"
    names = _top_names(tree)
    if names is None or function in names:
        return None
    near = get_close_matches(function, names, 1)
    return f"{file} has no {function}" + (f"; did you mean {near[0]}?" if near else "")


def _top_names(tree: ast.Module) -> set[str] | None:
    """Names bound at the top of a module; None if a star import hides some."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return None if "*" in names else names
