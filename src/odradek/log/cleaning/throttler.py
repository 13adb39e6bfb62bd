"""Limit on bytes per second, shared by all cleanings."""

from __future__ import annotations

from typing import Final

PERIOD_MS: Final = 1_000
"""Unused budget older than this expires."""


class Throttler:
    """Computes delays from the bytes spent. Times are monotonic."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._spent_bytes = 0

    def spend(self, size_bytes: int, bytes_per_second: float, now_ms: int) -> int:
        """Record I/O of ``size_bytes``; return the milliseconds to wait to stay within the limit."""
        if now_ms - self._since_ms > PERIOD_MS + self._required_ms(bytes_per_second):
            self._since_ms, self._spent_bytes = now_ms, 0
        self._spent_bytes += size_bytes
        return max(self._since_ms + self._required_ms(bytes_per_second) - now_ms, 0)

    def _required_ms(self, bytes_per_second: float) -> int:
        """Return the minimum time for the bytes spent."""
        return int(self._spent_bytes * 1000 / max(bytes_per_second, 1.0))
