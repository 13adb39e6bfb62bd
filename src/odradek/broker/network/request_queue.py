"""Requests that wait for work of the broker's own, over all connections (``queued.max.requests``).

Most requests are begun and answered within one turn of the loop. Those that wait for the store are counted
here; at the bound every connection stops reading until some are done. Requests that wait for records or for
replicas are not counted: they are over by their own deadline, and a few clients that wait must not stop all
others.
"""

from __future__ import annotations

from typing import Protocol


class Held(Protocol):
    def read_on(self) -> None:
        """The bound that held this one is no longer reached."""
        ...


class RequestQueue:
    __slots__ = ("_held", "_limit", "_waiting", "is_full")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting = 0
        self._held: set[Held] = set()
        self.is_full = limit <= 0

    def entered(self) -> None:
        self._waiting += 1
        self.is_full = self._waiting >= self._limit

    def left(self) -> None:
        self._waiting -= 1
        self.is_full = self._waiting >= self._limit
        if self._held and not self.is_full:
            held, self._held = self._held, set()
            for one in held:
                one.read_on()

    def hold(self, one: Held) -> None:
        """Remember who stopped reading because of this bound."""
        self._held.add(one)

    def forget(self, one: Held) -> None:
        self._held.discard(one)
