"""Schedule of auto commits."""

from __future__ import annotations


class AutoCommit:
    """Timer of auto commits, of which at most one is in flight. Pure: the time is passed in."""

    def __init__(self, enabled: bool, interval_ms: int) -> None:
        self.enabled = enabled
        self._interval_ms = interval_ms
        self._due_ms: int | None = None
        self._in_flight = False

    def is_due(self, now_ms: int) -> bool:
        """Return True if an auto commit is due now."""
        if not self.enabled:
            return False
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        return now_ms >= self._due_ms and not self._in_flight

    def start(self, now_ms: int) -> None:
        """Record that a commit was sent; the next one is due an interval later."""
        self._due_ms = now_ms + self._interval_ms
        self._in_flight = True

    def wait_ms(self, now_ms: int) -> int | None:
        """Return the time to the next commit; None while disabled, not started, or in flight."""
        if not self.enabled or self._in_flight or self._due_ms is None:
            return None
        return max(0, self._due_ms - now_ms)

    def complete(self, now_ms: int, retry_in_ms: int | None = None) -> None:
        """Record that the commit has completed; after a retriable error the next one is due earlier."""
        self._in_flight = False
        if retry_in_ms is not None and self._due_ms is not None:
            self._due_ms = min(self._due_ms, now_ms + retry_in_ms)

    def restart(self, now_ms: int) -> None:
        """Restart the interval: there is nothing to commit now."""
        self._due_ms = now_ms + self._interval_ms
