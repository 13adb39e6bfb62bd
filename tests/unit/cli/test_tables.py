"""What commands print is for people, for pipes, or for programs."""

from __future__ import annotations

import json
import sys

import pytest

from odradek.cli.tables import show

ROWS = [
    {"topic": "a", "in_sync": [1, 2], "hidden": 5},
    {"topic": "long-name", "in_sync": [], "internal": True},
]


def test_json_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ["topic"], as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_columns_are_aligned_and_lines_end_without_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ["topic", "in_sync", "internal"], as_json=False)
    assert capsys.readouterr().out == (
        "TOPIC      IN SYNC  INTERNAL\na          1,2      -\nlong-name  -        yes\n"
    )


def test_no_rows_are_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ["topic"], as_json=False)
    assert capsys.readouterr().out == "TOPIC\n"


def test_a_terminal_gets_a_table_in_which_nothing_is_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([{"topic": "[bold]x"}], ["topic"], as_json=False)
    assert "[bold]x" in capsys.readouterr().out
