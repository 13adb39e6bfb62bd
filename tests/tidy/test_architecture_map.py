"""Modules that docs/architecture.md and docs/code-map.md name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.sources import ROOT, SOURCE

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "code-map.md").read_text(encoding="utf-8")

# A path of ours in backquotes: has a slash or ends in .py, and only the letters of module names.
MODULE = re.compile(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*(?:\.pyx?|/))`")
PLANNED = "planned:"
PRODUCE_LINES_MAX = 3_130
"""Limit of the files that a produce request goes through: they are read together."""


def rows() -> Iterator[tuple[str, str]]:
    """Yield both cells of every table row of the map."""
    for line in MAP.splitlines():
        if line.startswith("| "):
            first, _, second = line.strip("| ").partition(" | ")
            yield first, second


def modules(text: str) -> list[str]:
    return MODULE.findall(text)


BUILT = sorted({path for _, cell in rows() for path in modules(cell.partition(PLANNED)[0])})
OPEN = sorted({path for _, cell in rows() for path in modules(cell.partition(PLANNED)[2])})
DRAWN = sorted(set(re.findall(r"(?<![\w/])(\w+/[\w/]+\.py)", PAGE)))


def test_the_tables_are_found() -> None:
    assert len(BUILT) > 150
    assert len(OPEN) > 2
    assert len(DRAWN) > 40


def test_modules_of_the_map_are_there() -> None:
    assert [path for path in [*BUILT, *DRAWN] if not (SOURCE / path).exists()] == []


def test_planned_modules_are_not_there_yet() -> None:
    built = [path for path in OPEN if (SOURCE / path).exists()]
    assert built == [], "these are built: take the word planned off them"


def test_every_row_of_the_map_names_a_place_or_says_why_not() -> None:
    bare = {first for first, cell in rows() if not modules(cell) and len(cell) < 40}
    assert bare - {"Kafka", "question", "---|---|"} == set()


def test_produce_path_stays_short_enough_to_be_read() -> None:
    section = PAGE.partition("## A produce request")[2].partition("## ")[0]
    drawn = re.findall(r"(?m)^ ([a-z_/]+\.py) ", section)
    assert len(drawn) == 9
    paths = [SOURCE / path for path in (*drawn, "timers/purgatory.py")]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert sum(lines.values()) <= PRODUCE_LINES_MAX, lines


def test_every_layer_is_drawn() -> None:
    drawing = PAGE.partition("```")[2].partition("```")[0]
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__", "_compiled"}
    assert {name for name in folders if not re.search(rf"\b{name}\b", drawing)} == set()
