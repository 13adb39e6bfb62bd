"""Output of a run: on a terminal, in a file, as JSON."""

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
    """Text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_display_is_selected_by_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(display_for(io.StringIO(), as_json=False), LineDisplay)
    assert isinstance(display_for(io.StringIO(), as_json=True), JsonDisplay)
    monkeypatch.setattr(sys, "stdout", Tty())
    assert isinstance(display_for(as_json=False), TerminalDisplay)
    assert isinstance(display_for(as_json=True), JsonDisplay)


def test_terminal_shows_a_live_line_below_messages() -> None:
    out = io.StringIO()
    display = TerminalDisplay(Console(file=out, force_terminal=True, width=100, highlight=False))
    display.message("metrics at [127.0.0.1]")
    display.batch(BATCH)
    display.batch(BATCH)
    display.close()
    display.close()
    display.message("done")
    shown = out.getvalue()
    assert "metrics at [127.0.0.1]\n" in shown
    assert LINE in shown
    assert "\x1b[2K" in shown, "the line is overwritten"
    assert shown.endswith("done\n")


def test_line_display_prints_batches_with_rows() -> None:
    out = io.StringIO()
    display = LineDisplay(out)
    display.batch(BATCH)
    display.event("started")
    display.close()
    assert out.getvalue() == LINE + "\n"


def test_json_display_prints_events_only() -> None:
    out = io.StringIO()
    display = JsonDisplay(out)
    display.message("text")
    display.batch(BATCH)
    display.event("ended", reason="once")
    display.close()
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["event"], first["batch_id"], first["rows_per_s"]) == ("progress", 4, 240.0)
    assert second == {"event": "ended", "reason": "once"}
