"""Fair scheduling of sessions with queued requests: round robin, with time slices per event loop iteration.

A connection may pipeline thousands of requests. If all were started as they are read, all other connections
would wait for the last of them. A session starts requests for at most one time slice (``TIME_SLICE_NS``) and
is then queued again; the slices of one loop iteration take at most ``LOOP_PASS_NS`` together, and the loop
does I/O in between. A connection that sends one request at a time is never queued: it is served as it is
read.

Invariant: sessions run in the order they were queued, however many requests each has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

TIME_SLICE_NS: Final = 1_000_000
LOOP_PASS_NS: Final = 4_000_000


class Schedulable(Protocol):
    is_scheduled: bool

    def run_time_slice(self) -> None:
        """Work for at most one time slice; queue again if there is more to do."""
        ...


class ConnectionScheduler:
    __slots__ = ("_defer", "_is_pass_pending", "_queue", "now_ns")

    def __init__(self, now_ns: Callable[[], int], defer: Callable[[Callable[[], None]], object]) -> None:
        """``defer`` calls back in the next event loop iteration."""
        self.now_ns = now_ns
        self._defer = defer
        self._queue: deque[Schedulable] = deque()
        self._is_pass_pending = False

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def add(self, session: Schedulable) -> None:
        """Queue a session, unless it is queued already."""
        if session.is_scheduled:
            return
        session.is_scheduled = True
        self._queue.append(session)
        self._schedule_pass()

    def _schedule_pass(self) -> None:
        if not self._is_pass_pending:
            self._is_pass_pending = True
            self._defer(self._run_pass)

    def _run_pass(self) -> None:
        self._is_pass_pending = False
        queue = self._queue
        deadline_ns = self.now_ns() + LOOP_PASS_NS
        for _ in range(len(queue)):
            session = queue.popleft()
            session.is_scheduled = False
            session.run_time_slice()
            if self.now_ns() >= deadline_ns:
                break
        if queue:
            self._schedule_pass()
