"""No loose ends and nothing of one machine in what is committed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.sources import ROOT, name_of, pages, python_files

HERE = Path(__file__)
CODE = [
    path
    for path in [*python_files("src", "tests", "bench", "examples"), *sorted((ROOT / "src").rglob("*.pyx"))]
    if path != HERE
]
SHIPPED = [path for path in [*CODE, *pages()] if "tests" not in path.parts]

LOOSE_END = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
KAFKA_DEFAULT = "/tmp/kafka-logs"
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(work|root|tmp|Users)(/|\b)")
# A number behind a hash sign, as trackers write it; colours and C's preprocessor have letters.
ISSUE = re.compile(r"(?<![&\w/])#\d+\b|\b(issue|PR|pull request) \d+\b", re.IGNORECASE)


def faults(paths: Iterable[Path], pattern: re.Pattern[str]) -> list[str]:
    """Every line that matches, with its place."""
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line.replace(KAFKA_DEFAULT, ""))
    ]


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert faults(CODE, LOOSE_END) == []


def test_no_path_of_one_machine_is_named() -> None:
    assert faults(SHIPPED, MACHINE_PATH) == []


def test_reasons_are_written_out_not_numbered() -> None:
    assert faults([*CODE, *pages()], ISSUE) == []


def test_the_patterns_find_what_they_look_for() -> None:
    assert LOOSE_END.search("# TODO: later")
    assert MACHINE_PATH.search('open("/tmp/x")')
    assert MACHINE_PATH.search("see /root for it")
    assert not MACHINE_PATH.search("https://host/work/x and docs/work")
    assert ISSUE.search("fixes #123")
    assert not ISSUE.search("&#39; and page#4")
