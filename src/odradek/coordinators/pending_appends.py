"""PendingAppends of one partition that are in its log and not yet known to be committed.

Invariants: they leave in the order in which they were appended, and only when the high watermark has passed
them; whoever asked for one is told of its end once. One whose time is up is answered, and stays: it is in
the log, so it is applied if it is committed after all, as a reload would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.coordinators.loader import LogItem
from odradek.timers.purgatory import DelayedOperation


class PendingAppend:
    """One append. ``deadline_ms`` is None while a flush must come before the replicas are waited for."""

    __slots__ = ("completion", "deadline_ms", "is_answered", "required_offset", "size_bytes", "told")

    def __init__(
        self,
        told: tuple[LogItem, ...],
        required_offset: int,
        size_bytes: int,
        completion: Any,
        deadline_ms: int | None,
    ) -> None:
        self.told = told
        self.required_offset = required_offset
        self.size_bytes = size_bytes
        self.completion = completion
        self.deadline_ms = deadline_ms
        self.is_answered = False


class PendingAppends:
    __slots__ = ("_queue", "size_bytes")

    def __init__(self) -> None:
        self._queue: deque[PendingAppend] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, one: PendingAppend) -> None:
        self._queue.append(one)
        self.size_bytes += one.size_bytes

    def is_committed(self, high_watermark: int) -> bool:
        """Whether the oldest may be taken."""
        return bool(self._queue) and self._queue[0].required_offset <= high_watermark

    def take(self) -> PendingAppend:
        """The oldest."""
        taken = self._queue.popleft()
        self.size_bytes -= taken.size_bytes
        return taken

    def overdue(self, now_ms: int) -> list[PendingAppend]:
        """Those that are still to be answered, and whose time is up."""
        due = []
        for one in self._queue:
            if one.is_answered or one.deadline_ms is None:
                continue
            if one.deadline_ms > now_ms:
                break
            due.append(one)
        return due

    def next_deadline_ms(self) -> int | None:
        """When the first of those that are still to be answered is overdue."""
        waiting = (one.deadline_ms for one in self._queue if not one.is_answered)
        return next((deadline_ms for deadline_ms in waiting if deadline_ms is not None), None)

    def clear(self) -> None:
        self._queue.clear()
        self.size_bytes = 0


class DelayedCommit(DelayedOperation):
    """Waits until the oldest append is committed, or until somebody has to be told that it takes too long."""

    __slots__ = ("_holds", "_then")

    def __init__(self, holds: Callable[[], bool], then: Callable[[], None]) -> None:
        super().__init__()
        self._holds = holds
        self._then: Callable[[], None] | None = then

    def try_complete(self) -> bool:
        return self._holds() and self.force_complete()

    def on_complete(self) -> None:
        if self._then is not None:
            self._then()

    def abandon(self) -> None:
        """Wait no longer, and tell nobody."""
        self._then = None
        self.force_complete()
