"""When offsets are committed without being asked."""

from __future__ import annotations


class AutoCommit:
    """Pure: the present is passed in. At most one commit of this kind is under way."""

    def __init__(self, enabled: bool, interval_ms: int) -> None:
        self.enabled = enabled
        self._interval_ms = interval_ms
        self._due_ms: int | None = None
        self._under_way = False

    def is_due(self, now_ms: int) -> bool:
        """Whether to commit now."""
        if not self.enabled:
            return False
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        return now_ms >= self._due_ms and not self._under_way

    def begin(self, now_ms: int) -> None:
        """A commit is on its way; the next one is due an interval later."""
        self._due_ms = now_ms + self._interval_ms
        self._under_way = True

    def wait_ms(self, now_ms: int) -> int | None:
        """Until the next commit is due; None if that is not known before another has ended."""
        if not self.enabled or self._under_way or self._due_ms is None:
            return None
        return max(0, self._due_ms - now_ms)

    def ended(self, now_ms: int, retry_in_ms: int | None = None) -> None:
        """It is done; one that may succeed later is due again soon."""
        self._under_way = False
        if retry_in_ms is not None and self._due_ms is not None:
            self._due_ms = min(self._due_ms, now_ms + retry_in_ms)

    def restart(self, now_ms: int) -> None:
        """There is nothing to commit now."""
        self._due_ms = now_ms + self._interval_ms
