"""A bound on bytes a second, over all who share it."""

from __future__ import annotations

from typing import Final

PERIOD_MS: Final = 1_000
"""What was not spent within so long is not saved up."""


class Throttler:
    """Told of what was spent, it says how long to wait. Times are the monotonic clock's."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._spent_bytes = 0

    def spend(self, size_bytes: int, bytes_per_second: float, now_ms: int) -> int:
        """How many milliseconds to wait after so many bytes, so that the bound holds."""
        if now_ms - self._since_ms > PERIOD_MS + self._worth_ms(bytes_per_second):
            self._since_ms, self._spent_bytes = now_ms, 0
        self._spent_bytes += size_bytes
        return max(self._since_ms + self._worth_ms(bytes_per_second) - now_ms, 0)

    def _worth_ms(self, bytes_per_second: float) -> int:
        """How long the bytes that were spent should have taken."""
        return int(self._spent_bytes * 1000 / max(bytes_per_second, 1.0))
