"""The logs of members, each line with its member's name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 256 * 1024
"""The end of a log in which its last lines are looked for; at most this much is printed at once."""
_POLL_MS: Final = 200


class LogTail:
    """Reads the end of a log, then what is appended. A log that is put aside is read from its new start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines."""
        size = self._size()
        self._position = max(0, size - _BLOCK_BYTES)
        lines = list(self.new_lines())
        return lines[-count:] if count else []

    def new_lines(self) -> Iterator[str]:
        """Yield complete lines since the last call."""
        size = self._size()
        if size < self._position:
            self._position, self._rest = 0, b""
        if size == self._position:
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            block = file.read(_BLOCK_BYTES)
        self._position += len(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0


def print_logs(tails: Iterable[tuple[str, LogTail]], count: int, show: Callable[[str], None]) -> None:
    """Print the last lines of each log."""
    for prefix, tail in tails:
        for line in tail.last_lines(count):
            show(prefix + line)


async def follow_logs(
    tails: Iterable[tuple[str, LogTail]],
    show: Callable[[str], None],
    sleep_ms: Callable[[int], Awaitable[None]],
) -> None:
    """Print what is appended to the logs, until cancelled."""
    listed = list(tails)
    while True:
        for prefix, tail in listed:
            for line in tail.new_lines():
                show(prefix + line)
        await sleep_ms(_POLL_MS)
