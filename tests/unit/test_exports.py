"""Exports of ``odradek`` exist, are the same for programs and type checkers, and are imported lazily."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import odradek
import odradek.aio

SOURCE = Path(odradek.__file__)
TYPED = {
    node.module: {alias.name for alias in node.names}
    for block in ast.parse(SOURCE.read_text(encoding="utf-8")).body
    if isinstance(block, ast.If)
    for node in block.body
    if isinstance(node, ast.ImportFrom)
}


def test_type_checkers_and_programs_are_told_the_same() -> None:
    assert {module: set(names) for module, names in odradek._EXPORTS.items()} == TYPED


def test_all_lists_every_export() -> None:
    named = {name for names in odradek._EXPORTS.values() for name in names}
    assert set(odradek.__all__) == named | {"__version__"}
    assert odradek.__all__ == sorted(odradek.__all__)
    assert dir(odradek) == odradek.__all__


@pytest.mark.parametrize("name", sorted(set(odradek.__all__) - {"__version__"}))
def test_an_export_is_the_thing_itself(name: str) -> None:
    assert getattr(odradek, name) is getattr(import_module(odradek._MODULE_OF[name]), name)


def test_an_unknown_name_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="'odradek' has no attribute 'Producr'"):
        _ = odradek.Producr


def test_a_program_that_only_imports_odradek_imports_no_client() -> None:
    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, odradek; print([m for m in sys.modules if m.startswith('odradek.')])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.strip() == "['odradek.compiled_modules', 'odradek.version']"


def test_both_worlds_have_the_same_clients() -> None:
    for name in odradek.aio.__all__:
        assert getattr(odradek, name).__name__ == getattr(odradek.aio, name).__name__
