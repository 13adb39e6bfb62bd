"""Modules are of a size one can read, named after what they hold, and say what that is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.sources import ROOT, SOURCE, name_of, python_files, tree_of

LINES_MAX = 800
FUNCTION_LINES_MAX = 60
MESSAGES = "src/odradek/wire/messages/"
"""Classes there are named as in Kafka's message definitions."""
TABLES = (MESSAGES, "src/odradek/config/broker/", "src/odradek/config/topic.py")
"""Long only because they list much."""
VAGUE = {
    *("util", "utils", "helper", "helpers", "common", "misc", "base", "core", "impl"),
    *("abstract", "internal", "data", "info"),
}
THEIRS = {
    "DataLoss",
    "FetchDataInfo",
    "FetchPartitionData",
    "LogAppendInfo",
    "PartitionInfo",
    "ScramCredentialInfo",
    "SetDataOp",
    "data_loss",
}
"""ZooKeeper's name for an operation of its multi; the name by which Kafka's clients tell of a partition; what
Spark's option ``failOnDataLoss`` is about."""

SOURCES = python_files("src")
SHIPPED = python_files("src", "bench", "examples")
ALL = python_files("src", "tests", "bench", "examples")


def words_of(name: str) -> set[str]:
    """``fetch_data`` and ``FetchData`` are both fetch and data."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)}


def classes_of(path: Path) -> list[str]:
    return [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]


def test_a_module_says_what_it_holds() -> None:
    silent = [name_of(path) for path in SHIPPED if not ast.get_docstring(tree_of(path))]
    assert silent == []


def test_a_module_is_short_enough_to_be_read() -> None:
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ALL}
    assert {name: n for name, n in lines.items() if n > LINES_MAX and not name.startswith(TABLES)} == {}


def test_a_function_is_short_enough_to_be_read() -> None:
    long = {
        f"{name_of(path)}::{node.name}": lines
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_names_say_what_things_are() -> None:
    vague = [
        f"{name_of(path)}::{name}"
        for path in SOURCES
        if not name_of(path).startswith(MESSAGES)
        for name in (path.stem, path.parent.name, *classes_of(path))
        if words_of(name) & VAGUE and name not in THEIRS
    ]
    assert vague == []


def test_exports_are_there_and_listed_once() -> None:
    wrong = {}
    for path in SOURCES:
        listed = exports_of(tree_of(path))
        if len(listed) != len(set(listed)) or set(listed) - bound_names(tree_of(path)):
            wrong[name_of(path)] = listed
    assert wrong == {}


def test_a_folder_decides_nothing_unless_it_is_a_table() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.Try)
    deciding = [
        name_of(path)
        for path in SOURCE.rglob("__init__.py")
        # The package itself imports its exports when they are asked for.
        if path.parent not in (SOURCE, SOURCE / "broker" / "handlers")
        and any(isinstance(node, kinds) for node in tree_of(path).body)
    ]
    assert deciding == []


def exports_of(tree: ast.Module) -> list[str]:
    """The names in ``__all__``, as far as they are written out."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            return [
                item.value
                for item in ast.walk(node.value)
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
    return []


def bound_names(tree: ast.Module) -> set[str]:
    """Names that a module has at its top."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_a_module_that_claims_to_be_pure_is_in_the_import_contract() -> None:
    text = (ROOT / ".importlinter").read_text(encoding="utf-8")
    contract = text.partition("[importlinter:contract:sans-io]")[2].partition("forbidden_modules")[0]
    listed = tuple(line.strip() for line in contract.splitlines() if line.startswith("    odradek"))
    assert len(listed) > 50
    unlisted = [
        module
        for path in SOURCES
        if path.is_relative_to(SOURCE) and re.search(r"\b[Pp]ure\b", ast.get_docstring(tree_of(path)) or "")
        for module in [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)]
        if not any(module == name or module.startswith(f"{name}.") for name in listed)
    ]
    assert unlisted == []
