"""Limit on requests that run as tasks, over all connections (``queued.max.requests``).

Most requests complete within one loop iteration. Those that wait for the store are counted here; at the limit
every connection stops reading until some complete. Requests in a purgatory are not counted: they end by their
own deadline, and a few waiting clients must not stop all others.
"""

from __future__ import annotations

from typing import Protocol


class PausedSession(Protocol):
    def try_resume(self) -> None:
        """Check the limits again, and resume reading if possible."""
        ...


class RequestQueue:
    __slots__ = ("_limit", "_paused", "_task_count", "is_full")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._task_count = 0
        self._paused: set[PausedSession] = set()
        self.is_full = limit <= 0

    def task_started(self) -> None:
        self._task_count += 1
        self.is_full = self._task_count >= self._limit

    def task_finished(self) -> None:
        self._task_count -= 1
        self.is_full = self._task_count >= self._limit
        if self._paused and not self.is_full:
            paused, self._paused = self._paused, set()
            for session in paused:
                session.try_resume()

    def add_paused(self, session: PausedSession) -> None:
        """Add a session that stopped reading at this limit."""
        self._paused.add(session)

    def remove_paused(self, session: PausedSession) -> None:
        self._paused.discard(session)
