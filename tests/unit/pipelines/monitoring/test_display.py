"""What a run shows: on a terminal, in a file, for a program."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from odradek.pipelines.monitoring.display import JsonDisplay, LineDisplay, TerminalDisplay, display_for
from odradek.pipelines.monitoring.progress import Progress

BATCH = Progress("q", "r", at_ms=0, batch_id=4, row_count=120, batch_ms=500, lag_rows=0, lag_s=0.0)
LINE = "batch 4 · 120 rows · 240 rows/s · 0.50 s · lag 0 rows, 0 s"


class Tty(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_display_fits_where_the_output_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(display_for(io.StringIO(), as_json=False), LineDisplay)
    assert isinstance(display_for(io.StringIO(), as_json=True), JsonDisplay)
    monkeypatch.setattr(sys, "stdout", Tty())
    assert isinstance(display_for(as_json=False), TerminalDisplay)
    assert isinstance(display_for(as_json=True), JsonDisplay)


def test_a_terminal_shows_the_newest_batch_in_one_line_and_keeps_what_was_said() -> None:
    out = io.StringIO()
    display = TerminalDisplay(Console(file=out, force_terminal=True, width=100, highlight=False))
    display.say("metrics at [127.0.0.1]")
    display.batch(BATCH)
    display.batch(BATCH)
    display.close()
    display.close()
    display.say("done")
    shown = out.getvalue()
    assert "metrics at [127.0.0.1]\n" in shown
    assert LINE in shown
    assert "\x1b[2K" in shown, "the line is written over"
    assert shown.endswith("done\n")


def test_a_file_gets_a_line_for_each_batch_with_rows() -> None:
    out = io.StringIO()
    display = LineDisplay(out)
    display.batch(BATCH)
    display.event("started")
    display.close()
    assert out.getvalue() == LINE + "\n"


def test_a_program_gets_objects_and_no_words() -> None:
    out = io.StringIO()
    display = JsonDisplay(out)
    display.say("words")
    display.batch(BATCH)
    display.event("ended", reason="once")
    display.close()
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["event"], first["batch_id"], first["rows_per_s"]) == ("progress", 4, 240.0)
    assert second == {"event": "ended", "reason": "once"}
