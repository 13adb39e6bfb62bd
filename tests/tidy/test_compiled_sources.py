"""Compiled sources keep to what mypyc compiles correctly; it compiles the rest without a warning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "odradek"
WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)
LEAVES_AT_ONCE = re.compile(r"asyncio\.timeout(_at)?\(|lock\b|limit\b|_reading\b")
"""Context managers whose ``__aexit__`` does not wait."""


def table(name: str) -> tuple[str, ...]:
    """Return one of the tables in setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == name
        ):
            return tuple(ast.literal_eval(node.value))
    raise AssertionError(f"setup.py has no table {name}")


def compiled() -> list[Path]:
    named = {path for pattern in table("COMPILED") for path in PACKAGE.glob(pattern)}
    return sorted(named - {PACKAGE / path for path in table("INTERPRETED")})


def waits_while_handling(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that wait in an ``except`` or ``finally``.

    The exception that a compiled coroutine handles stays the current one of the thread while it waits, and
    an ``await`` in a ``finally`` raises whichever exception is the current one, for example another task's.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            handling = [*node.finalbody, *(line for handler in node.handlers for line in handler.body)]
            yield from (
                each.lineno for line in handling for each in ast.walk(line) if isinstance(each, WAITS)
            )
        elif isinstance(node, ast.AsyncWith):
            managers = [ast.unparse(item.context_expr) for item in node.items]
            yield from (node.lineno for manager in managers if not LEAVES_AT_ONCE.search(manager))


def positional_only_beside_keywords(tree: ast.AST) -> Iterator[int]:
    """Yield functions that would refuse a keyword with the name of a positional-only parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments) and node.posonlyargs and node.kwarg:
            yield node.kwarg.lineno


def classes(paths: Iterable[Path]) -> Iterator[ast.ClassDef]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node


def is_closed(node: ast.ClassDef) -> bool:
    """Return whether only compiled classes may inherit from a compiled class."""
    described = " ".join(map(ast.unparse, [*node.bases, *node.decorator_list]))
    return not re.search("Protocol|Error|Exception|NamedTuple|Enum|allow_interpreted_subclasses", described)


@pytest.mark.parametrize("path", compiled(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_compiled_source_keeps_to_what_is_compiled_correctly(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert list(waits_while_handling(tree)) == []
    assert list(positional_only_beside_keywords(tree)) == []


def test_only_compiled_classes_inherit_from_closed_ones() -> None:
    closed = {node.name for node in classes(compiled()) if is_closed(node)}
    interpreted = set(PACKAGE.rglob("*.py")) - set(compiled())
    wrong = [
        (node.name, ast.unparse(base))
        for node in classes(interpreted)
        for base in node.bases
        if ast.unparse(base).partition("[")[0] in closed
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "handling",
    [
        "    try:\n        pass\n    except OSError:\n        await f()",
        "    try:\n        pass\n    finally:\n        await f()",
        "    async with connection():\n        pass",
    ],
)
def test_wait_while_handling_is_found(handling: str) -> None:
    assert list(waits_while_handling(ast.parse(f"async def g():\n{handling}")))


def test_every_path_of_the_tables_exists() -> None:
    patterns = [*table("COMPILED"), *table("INTERPRETED")]
    assert [pattern for pattern in patterns if not list(PACKAGE.glob(pattern))] == []
