"""Appends of one partition that are in its log but not yet known to be committed.

Invariants: appends are removed in log order, and only when the high watermark has passed them; each is
completed once. An append that times out is failed but stays in the queue: it is in the log, so it is replayed
if it is committed later, as a reload would do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.coordinators.loader import LogItem
from odradek.timers.purgatory import DelayedOperation


class PendingAppend:
    """One append. ``deadline_ms`` is None while a flush has to finish before replication is waited for."""

    __slots__ = ("completion", "deadline_ms", "is_completed", "items", "required_offset", "size_bytes")

    def __init__(
        self,
        items: tuple[LogItem, ...],
        required_offset: int,
        size_bytes: int,
        completion: object,
        deadline_ms: int | None,
    ) -> None:
        self.items = items
        self.required_offset = required_offset
        self.size_bytes = size_bytes
        self.completion = completion
        self.deadline_ms = deadline_ms
        self.is_completed = False


class PendingAppends:
    __slots__ = ("_queue", "size_bytes")

    def __init__(self) -> None:
        self._queue: deque[PendingAppend] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, append: PendingAppend) -> None:
        self._queue.append(append)
        self.size_bytes += append.size_bytes

    def is_committed(self, high_watermark: int) -> bool:
        """Return whether the oldest append is below the high watermark."""
        return bool(self._queue) and self._queue[0].required_offset <= high_watermark

    def pop(self) -> PendingAppend:
        """Remove and return the oldest append."""
        append = self._queue.popleft()
        self.size_bytes -= append.size_bytes
        return append

    def timed_out(self, now_ms: int) -> list[PendingAppend]:
        """Return the appends that are not completed and whose deadline has passed."""
        expired = []
        for append in self._queue:
            if append.is_completed or append.deadline_ms is None:
                continue
            if append.deadline_ms > now_ms:
                break
            expired.append(append)
        return expired

    def next_deadline_ms(self) -> int | None:
        """Return the first deadline of an append that is not completed."""
        deadlines = (append.deadline_ms for append in self._queue if not append.is_completed)
        return next((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), None)

    def clear(self) -> None:
        self._queue.clear()
        self.size_bytes = 0


class DelayedCommit(DelayedOperation):
    """Waits until the oldest append is committed, or until the next append times out."""

    __slots__ = ("_is_committed", "_on_complete")

    def __init__(self, is_committed: Callable[[], bool], on_complete: Callable[[], None]) -> None:
        super().__init__()
        self._is_committed = is_committed
        self._on_complete: Callable[[], None] | None = on_complete

    def try_complete(self) -> bool:
        return self._is_committed() and self.force_complete()

    def on_complete(self) -> None:
        if self._on_complete is not None:
            self._on_complete()

    def discard(self) -> None:
        """Complete without calling back."""
        self._on_complete = None
        self.force_complete()
