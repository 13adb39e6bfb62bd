"""Output of a run: a live line on a terminal, plain lines elsewhere, or JSON lines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from odradek.pipelines.monitoring import progress as batches
from odradek.pipelines.monitoring.progress import Progress, line_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Display(Protocol):
    """Output of a run."""

    def message(self, text: str) -> None:
        """Show a message."""
        ...

    def activity(self, text: str) -> None:
        """Show what is in progress."""
        ...

    def batch(self, progress: Progress) -> None:
        """Show a completed batch."""
        ...

    def event(self, kind: str, **fields: object) -> None:
        """Write an event for programs."""
        ...

    def close(self) -> None: ...


class LineDisplay:
    """Plain lines, for output that is not a terminal; batches without rows are omitted."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def message(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def activity(self, text: str) -> None:
        self.message(text)

    def batch(self, progress: Progress) -> None:
        if progress.row_count:
            self.message(line_of(progress))

    def event(self, kind: str, **fields: object) -> None:
        """Do nothing: events are for JSON output."""

    def close(self) -> None:
        """Do nothing: lines are flushed."""


class JsonDisplay:
    """One JSON object per line, with its kind in ``event``."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def message(self, text: str) -> None:
        """Do nothing: text is for people."""

    def activity(self, text: str) -> None:
        """Do nothing: text is for people."""

    def batch(self, progress: Progress) -> None:
        self.event("progress", **batches.to_json(progress))

    def event(self, kind: str, **fields: object) -> None:
        print(json.dumps({"event": kind, **fields}, ensure_ascii=False), file=self._out, flush=True)

    def close(self) -> None:
        """Do nothing: lines are flushed."""


class TerminalDisplay:
    """The latest batch or activity in a live line; messages stay above it."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = console or Console(highlight=False)
        self._status: Status | None = None

    def message(self, text: str) -> None:
        self._console.print(text, markup=False)

    def batch(self, progress: Progress) -> None:
        self.activity(line_of(progress))

    def activity(self, text: str) -> None:
        from rich.text import Text

        line = Text(text, no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = self._console.status(line, spinner="dots")
            self._status.start()
        else:
            self._status.update(line)

    def event(self, kind: str, **fields: object) -> None:
        """Do nothing: events are for JSON output."""

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def display_for(out: TextIO | None = None, *, as_json: bool) -> Display:
    """Return the display for an output."""
    out = out or sys.stdout
    if as_json:
        return JsonDisplay(out)
    return TerminalDisplay() if out is sys.stdout and out.isatty() else LineDisplay(out)
