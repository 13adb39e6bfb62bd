"""An answer that is not there yet.

Handlers run in arrival order and must not wait; one whose answer depends on something later returns a
``Pending``. It is completed at most once, from the event loop, and tells its one listener at once: no task,
no future, no extra turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Pending(Generic[R]):
    __slots__ = ("_done", "_then", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: R | None = None
        self._then: Callable[[R], None] | None = None

    def complete(self, value: R) -> None:
        assert not self._done, "an answer is given once"
        self._done = True
        if self._then is None:
            self._value = value
        else:
            self._then(value)

    def then(self, callback: Callable[[R], None]) -> None:
        """Call back with the value: now if it is there, else when it comes."""
        if self._done:
            callback(self._value)  # type: ignore[arg-type]
        else:
            self._then = callback
