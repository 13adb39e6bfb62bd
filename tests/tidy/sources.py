"""The files that the tidy tests look at."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "odradek"


def name_of(path: Path) -> str:
    """The path from the root, for messages and test ids."""
    return str(path.relative_to(ROOT))


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def pages() -> list[Path]:
    """Every Markdown page that belongs to the project."""
    folders = ("docs", "tests", "changes")
    return sorted(
        [
            *ROOT.glob("*.md"),
            *(ROOT / "bench").glob("*.md"),
            *(page for folder in folders for page in (ROOT / folder).rglob("*.md")),
        ]
    )


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
