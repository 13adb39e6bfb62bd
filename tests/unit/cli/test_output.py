"""Output of commands: tables, plain columns, JSON."""

from __future__ import annotations

import json
import sys

import pytest

from odradek.cli.output import as_size, show, show_done, show_fields

ROWS = [
    {"topic": "a", "in_sync": [1, 2], "hidden": 5},
    {"topic": "long-name", "in_sync": [], "internal": True},
]


def test_json_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ["topic"], as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_plain_columns_are_aligned_without_trailing_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ["topic", "in_sync", "internal"], as_json=False)
    assert capsys.readouterr().out == (
        "TOPIC      IN SYNC  INTERNAL\na          1,2      -\nlong-name  -        yes\n"
    )


def test_empty_table_prints_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ["topic"], as_json=False)
    assert capsys.readouterr().out == "TOPIC\n"


def test_table_does_not_interpret_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([{"topic": "[bold]x"}], ["topic"], as_json=False)
    assert "[bold]x" in capsys.readouterr().out


def test_empty_message_replaces_table(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ["topic"], as_json=False, empty="no topics")
    assert capsys.readouterr() == ("", "odradek: no topics\n")
    show([], ["topic"], as_json=True, empty="no topics")
    assert capsys.readouterr() == ("[]\n", "")


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (None, None),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5 * 10**9, "5.0 GB"),
        (3 * 10**15, "3000.0 TB"),
    ],
)
def test_as_size(size_bytes: int | None, shown: str | None) -> None:
    assert as_size(size_bytes) == shown


def test_show_fields_aligns_values(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"cluster": "abc", "brokers": 3})
    assert capsys.readouterr().out == "cluster  abc\nbrokers  3\n"


def test_show_done_prints_lines_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"group": "g", "topic": "t", "partition": 0}]
    show_done("deleted", rows, as_json=False)
    assert capsys.readouterr().out == "deleted g t 0\n"
    show_done("deleted", rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == rows
