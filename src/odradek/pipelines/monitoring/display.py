"""What a run shows while it goes: one line that changes on a terminal, plain lines elsewhere, or JSON lines.

Nothing here decides what is told; ``listener.py`` does.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from odradek.pipelines.monitoring import progress as batches
from odradek.pipelines.monitoring.progress import Progress, line_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Display(Protocol):
    """Where a run is told."""

    def say(self, words: str) -> None:
        """Something that happened, in words."""
        ...

    def doing(self, words: str) -> None:
        """Something that takes a while and begins now."""
        ...

    def batch(self, progress: Progress) -> None:
        """A batch that ended."""
        ...

    def event(self, kind: str, **fields: Any) -> None:
        """The same for programs."""
        ...

    def close(self) -> None: ...


class LineDisplay:
    """One line for each thing told, where nobody watches. Batches without rows are no news."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, words: str) -> None:
        print(words, file=self._out, flush=True)

    def doing(self, words: str) -> None:
        self.say(words)

    def batch(self, progress: Progress) -> None:
        if progress.row_count:
            self.say(line_of(progress))

    def event(self, kind: str, **fields: Any) -> None:
        """Programs ask for JSON."""

    def close(self) -> None:
        """Lines are out already."""


class JsonDisplay:
    """One JSON object a line: ``event`` says of what, the other fields what of it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, words: str) -> None:
        """Words are for people."""

    def doing(self, words: str) -> None:
        """Words are for people."""

    def batch(self, progress: Progress) -> None:
        self.event("progress", **batches.to_json(progress))

    def event(self, kind: str, **fields: Any) -> None:
        print(json.dumps({"event": kind, **fields}, ensure_ascii=False), file=self._out, flush=True)

    def close(self) -> None:
        """Lines are out already."""


class TerminalDisplay:
    """The newest batch, or what is being done, in a line written over; what is said stays above it."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = console or Console(highlight=False)
        self._status: Status | None = None

    def say(self, words: str) -> None:
        self._console.print(words, markup=False)

    def batch(self, progress: Progress) -> None:
        self.doing(line_of(progress))

    def doing(self, words: str) -> None:
        from rich.text import Text

        line = Text(words, no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = self._console.status(line, spinner="dots")
            self._status.start()
        else:
            self._status.update(line)

    def event(self, kind: str, **fields: Any) -> None:
        """Programs ask for JSON."""

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def display_for(out: TextIO | None = None, *, as_json: bool) -> Display:
    """The display that fits where the output goes."""
    out = out or sys.stdout
    if as_json:
        return JsonDisplay(out)
    return TerminalDisplay() if out is sys.stdout and out.isatty() else LineDisplay(out)
