"""Rate-limited log events: a few of each kind per time window, and a count of the suppressed ones.

    bounded.warning("batch_rejected", "CORRUPT_MESSAGE", partition="orders-0", reason="...")

The first event of a kind after a window with suppressed ones has a field ``suppressed``. The number of
kinds is bounded too: further kinds share one count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.telemetry.events import EventLogger

COUNT_MAX: Final = 5
WINDOW_MS: Final = 60_000
KINDS_MAX: Final = 100

_OTHERS: Final = ""


class _Count:
    __slots__ = ("began_ms", "suppressed", "written")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.written = 0
        self.suppressed = 0


class RateLimitedEvents:
    """Logs at most ``count_max`` events of each kind per ``window_ms``. ``now_ms`` is monotonic."""

    __slots__ = ("_count_max", "_counts", "_kinds_max", "_logger", "_now_ms", "_window_ms")

    def __init__(
        self,
        logger: EventLogger,
        now_ms: Callable[[], int],
        *,
        count_max: int = COUNT_MAX,
        window_ms: int = WINDOW_MS,
        kinds_max: int = KINDS_MAX,
    ) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._count_max = count_max
        self._window_ms = window_ms
        self._kinds_max = kinds_max
        self._counts: dict[str, _Count] = {}

    def info(self, event: str, kind: str, /, **fields: object) -> None:
        """Log an event, or count it if its kind has reached the limit."""
        if self._is_due(kind, fields):
            self._logger.info(event, **fields)

    def warning(self, event: str, kind: str, /, **fields: object) -> None:
        """Log a warning, or count it if its kind has reached the limit."""
        if self._is_due(kind, fields):
            self._logger.warning(event, **fields)

    def error(self, event: str, kind: str, /, **fields: object) -> None:
        """Log an error, or count it if its kind has reached the limit."""
        if self._is_due(kind, fields):
            self._logger.error(event, **fields)

    def _is_due(self, kind: str, fields: dict[str, object]) -> bool:
        """Count an event; if it is to be logged, add the number of suppressed ones."""
        now_ms = self._now_ms()
        count = self._count_of(kind, now_ms)
        if now_ms - count.began_ms >= self._window_ms:
            count.began_ms, count.written = now_ms, 0
        if count.written >= self._count_max:
            count.suppressed += 1
            return False
        count.written += 1
        if count.suppressed:
            fields["suppressed"], count.suppressed = count.suppressed, 0
        return True

    def _count_of(self, kind: str, now_ms: int) -> _Count:
        count = self._counts.get(kind)
        if count is None:
            if kind != _OTHERS and len(self._counts) >= self._kinds_max:
                return self._count_of(_OTHERS, now_ms)
            count = self._counts[kind] = _Count(now_ms)
        return count
