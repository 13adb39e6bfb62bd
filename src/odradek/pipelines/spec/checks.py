"""Checks of a pipeline file: conflicting keys, and missing or invalid files that it names."""

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


def sink_findings(sink: Sink, keys: frozenset[str]) -> Iterator[Finding]:
    """Yield keys that the sink's type does not use, and modes or guarantees that it does not support."""
    if sink.type != "topic":
        yield from _unused(keys, ("topic", "key"), f'requires a topic sink, but type is "{sink.type}"')
    if sink.type != "delta":
        yield from _unused(keys, _DELTA_KEYS, f'requires a Delta table, but type is "{sink.type}"')
    if sink.type not in ("delta", "parquet"):
        message = f'requires type "delta" or "parquet", but type is "{sink.type}"'
        yield from _unused(keys, ("path", "partition_by"), message)
    yield from _mode_findings(sink)
    yield from _guarantee_findings(sink)


def _unused(keys: frozenset[str], unused_keys: tuple[str, ...], message: str) -> Iterator[Finding]:
    for key in unused_keys:
        if key in keys:
            yield ("sink", key), f"[sink] {key} {message}; remove it"


def _mode_findings(sink: Sink) -> Iterator[Finding]:
    if sink.type == "parquet" and sink.mode != "append":
        yield (
            ("sink", "mode"),
            f"[sink] mode must be append for Parquet files, got {sink.mode}; use a Delta table",
        )
    if sink.type == "delta" and sink.mode == "update" and not sink.keys:
        yield (
            ("sink", "mode"),
            '[sink] mode update requires keys, as in keys = ["id"]',
        )
    if sink.type == "delta" and sink.mode == "complete" and sink.keys:
        yield ("sink", "keys"), "[sink] keys cannot be used with mode complete, which replaces all rows"
    if sink.type == "topic" and sink.mode == "update":
        yield (
            ("sink", "mode"),
            "[sink] mode update is not supported by Spark for Python sinks; use append, complete, or a Delta "
            "table with keys",
        )


def _guarantee_findings(sink: Sink) -> Iterator[Finding]:
    if sink.guarantee != "exactly_once" or sink.type in ("topic", "delta"):
        return
    if sink.type == "parquet":
        message = (
            "Parquet files are exactly once only for readers of Spark's _spark_metadata; "
            'use type = "delta", or guarantee = "at_least_once"'
        )
    else:
        message = f'a {sink.type} sink does not support exactly_once; use guarantee = "at_least_once"'
    yield ("sink", "guarantee"), f"[sink] guarantee: {message}"


def dead_letter_findings(dead: DeadLetter, source: Source, sink: Sink) -> Iterator[Finding]:
    """Yield conflicts of dead letters with the source's format, the sink's mode or the topics."""
    if source.value.format != "json":
        message = 'requires JSON values; set value = {format = "json", schema = …} in [source]'
        yield ("dead_letter",), f"[dead_letter] {message}"
    if sink.mode == "complete":
        yield ("dead_letter",), "[dead_letter] cannot be used with [sink] mode complete"
    if sink.type not in ("topic", "delta"):
        message = f'requires a sink of type topic or delta, but type is "{sink.type}"'
        yield ("dead_letter",), f"[dead_letter] {message}"
    if sink.type == "topic" and sink.topic == dead.topic:
        yield ("dead_letter", "topic"), "[dead_letter] topic must not be the sink's topic"
    if dead.topic in source.topics:
        yield ("dead_letter", "topic"), "[dead_letter] topic must not be a source topic"


def loop_findings(source: Source, sink: Sink) -> Iterator[Finding]:
    """Yield a problem if the pipeline reads its own output."""
    if sink.type == "topic" and sink.topic in source.topics and sink.brokers == source.brokers:
        yield ("sink", "topic"), f"[sink] topic must not be a source topic, got {sink.topic}"
    if source.path is not None and source.path == sink.path:
        yield ("sink", "path"), "[sink] path must not be the source's path"


def spark_findings(settings: dict[str, str], sink: Sink) -> Iterator[Finding]:
    """Yield Spark settings that conflict with the guarantee."""
    if sink.guarantee != "exactly_once":
        return
    if settings.get("spark.speculation", "false").lower() == "true":
        message = "two attempts of one task would fence each other; remove it, or use at_least_once"
        yield (
            ("spark", "spark.speculation"),
            f"[spark] spark.speculation with guarantee exactly_once: {message}",
        )
    adaptive = "spark.sql.adaptive.streaming.stateless.enabled"
    if settings.get(adaptive, "false").lower() == "true":
        message = "a replayed batch must be partitioned as before; remove it, or use at_least_once"
        yield ("spark", adaptive), f"[spark] {adaptive} with guarantee exactly_once: {message}"


def transform_findings(transform: Transform, directory: Path) -> Iterator[Finding]:
    """Yield missing files and functions."""
    if transform.sql is not None and not transform.sql.is_file():
        yield ("transform", "sql"), f"[transform] sql: file {transform.sql} not found"
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
        problem = f"{file} not found, and no module {transform.module} is installed"
    if problem is not None:
        yield ("transform", "module"), f"[transform] module: {problem}"


def _is_installed(module: str, directory: Path) -> bool:
    """Return True if the top-level package is found: finding a submodule would run its code."""
    outermost = module.partition(".")[0]
    if PathFinder.find_spec(outermost, [str(directory)]) is not None:
        return True
    try:
        return find_spec(outermost) is not None
    except ValueError:
        # ``__main__`` has no spec.
        return False


def function_problem(file: Path, function: str) -> str | None:
    """Return the problem of a file without this function; the file is parsed, not run."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    except SyntaxError as error:
        return f"{file}:{error.lineno}: {error.msg}"
    names = _top_names(tree)
    if names is None or function in names:
        return None
    nearest = get_close_matches(function, names, 1)
    return f"{file} has no function {function}" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _top_names(tree: ast.Module) -> set[str] | None:
    """Return the names bound in a module; None with a star import."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return None if "*" in names else names
