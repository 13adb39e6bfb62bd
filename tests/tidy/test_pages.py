"""Pages point at what is there: links resolve, and tests that are named exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.sources import ROOT, name_of, pages, tree_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
NAMED_FILE = re.compile(r"`((?:tests|docs|bench|examples|src)/[\w./-]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

PAGES = pages()
NAMED_TESTS = sorted(
    {name for page in PAGES for name in NAMED_TEST.findall(page.read_text(encoding="utf-8"))}
)


def anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def resolves(page: Path, target: str) -> bool:
    if "://" in target:
        return True
    place, _, part = target.partition("#")
    linked = page.parent / place if place else page
    if not part or not linked.exists():
        return linked.exists()
    return part in {anchor(heading) for heading in HEADING.findall(linked.read_text(encoding="utf-8"))}


def functions_of(path: str) -> set[str]:
    """Functions of a test module, asynchronous ones too."""
    module = ROOT / "tests" / path
    if not module.exists():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree_of(module)) if isinstance(node, kinds)}


def test_links_lead_somewhere() -> None:
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert len(links) > 20
    assert [f"{name_of(page)}: {target}" for page, target in links if not resolves(page, target)] == []


def test_files_named_are_there() -> None:
    named = [(page, path) for page in PAGES for path in NAMED_FILE.findall(page.read_text(encoding="utf-8"))]
    assert [f"{name_of(page)}: {path}" for page, path in named if not (ROOT / path).exists()] == []


def test_tests_that_pages_name_are_there() -> None:
    assert [f"{path}::{name}" for path, name in NAMED_TESTS if name not in functions_of(path)] == []


def test_the_guarantees_name_their_tests() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    assert len(NAMED_TEST.findall(page)) > 25
