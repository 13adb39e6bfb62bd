"""Turns of sessions whose requests wait: round robin, a slice of time per pass of the event loop.

A connection may pipeline thousands of requests. If they were begun as they were read, all other connections
would wait for the last of them. A session begins requests for at most one turn (``TURN_NS``) and then lines
up for the next; the turns of one pass take at most ``PASS_NS`` together, and the loop reads and writes in
between. A connection that sends one request at a time never lines up: it is served as it is read.

Invariant: a session in line is served after all that lined up before it, however many requests those have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

TURN_NS: Final = 1_000_000
PASS_NS: Final = 4_000_000


class TurnTaker(Protocol):
    is_in_line: bool

    def take_turn(self) -> None:
        """Work for at most one turn; line up again if there is more to do."""
        ...


class Turns:
    __slots__ = ("_defer", "_is_pass_due", "_line", "now_ns")

    def __init__(self, now_ns: Callable[[], int], defer: Callable[[Callable[[], None]], object]) -> None:
        """``defer`` calls back in the next pass of the event loop."""
        self.now_ns = now_ns
        self._defer = defer
        self._line: deque[TurnTaker] = deque()
        self._is_pass_due = False

    @property
    def is_idle(self) -> bool:
        return not self._line

    def add(self, session: TurnTaker) -> None:
        """Line up for a turn; once is enough."""
        if session.is_in_line:
            return
        session.is_in_line = True
        self._line.append(session)
        self._call_later()

    def _call_later(self) -> None:
        if not self._is_pass_due:
            self._is_pass_due = True
            self._defer(self._serve)

    def _serve(self) -> None:
        self._is_pass_due = False
        line = self._line
        ends_ns = self.now_ns() + PASS_NS
        for _ in range(len(line)):
            session = line.popleft()
            session.is_in_line = False
            session.take_turn()
            if self.now_ns() >= ends_ns:
                break
        if line:
            self._call_later()
