"""When offsets are committed without being asked."""

from __future__ import annotations


class AutoCommit:
    """Pure: the present is passed in. At most one commit of this kind is under way."""

    def __init__(self, enabled: bool, interval_ms: int) -> None:
        self.enabled = enabled
        self._interval_ms = interval_ms
        self._due_ms: int | None = None
        self._under_way = False

    def begin(self, now_ms: int) -> bool:
        """Whether to commit now; if so, the next one is due an interval later."""
        if not self.enabled:
            return False
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        if self._under_way or now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._interval_ms
        self._under_way = True
        return True

    def wait_ms(self, now_ms: int) -> int | None:
        """Until the next commit is due; None if there will be none."""
        return None if not self.enabled or self._due_ms is None else max(0, self._due_ms - now_ms)

    def ended(self, now_ms: int, retry_in_ms: int | None = None) -> None:
        """It is done; one that may succeed later is due again soon."""
        self._under_way = False
        if retry_in_ms is not None and self._due_ms is not None:
            self._due_ms = min(self._due_ms, now_ms + retry_in_ms)

    def restart(self, now_ms: int) -> None:
        """Everything has just been committed, or is new here."""
        self._due_ms = now_ms + self._interval_ms
