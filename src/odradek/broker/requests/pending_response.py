"""Response that is completed later.

Handlers run in arrival order and must not wait; a handler whose response depends on a later event returns a
``PendingResponse``. It is completed at most once, on the event loop, and calls its one callback directly,
without a task, a future or another loop iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class PendingResponse(Generic[R]):
    __slots__ = ("_done", "_then", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: R | None = None
        self._then: Callable[[R], None] | None = None

    def complete(self, value: R) -> None:
        assert not self._done, "a response is completed once"
        self._done = True
        if self._then is None:
            self._value = value
        else:
            self._then(value)

    def then(self, callback: Callable[[R], None]) -> None:
        """Call back with the value, now or on completion."""
        if self._done:
            callback(self._value)  # type: ignore[arg-type]
        else:
            self._then = callback
