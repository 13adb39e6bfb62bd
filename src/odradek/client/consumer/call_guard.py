"""One call at a time: a consumer belongs to one thread or task, and says so when two use it at once.

A call inside a call is allowed: a rebalance listener, called by ``poll``, may commit and seek. With each call
that is not inside another, ``settle`` is called first: what a loop was not given has not been read.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from odradek.model.client_errors import ConcurrentUse

_INSIDE: Final[contextvars.ContextVar[frozenset[object]]] = contextvars.ContextVar(
    "inside", default=frozenset()
)
"""Calls that the running code is part of; tasks that a call starts inherit it."""


def _nothing_to_settle() -> None:
    return


class TaskCallGuard:
    """For asyncio: a call, and the tasks it starts, keep others out."""

    def __init__(self, name: str) -> None:
        self.before_call: Callable[[], None] = _nothing_to_settle
        self._name = name
        self._call: object | None = None
        self._token: contextvars.Token[frozenset[object]] | None = None
        self._insider = object()
        self._depth = 0

    def __enter__(self) -> None:
        if self._call is None:
            self._call = object()
            self._token = _INSIDE.set(_INSIDE.get() | {self._call})
            self.before_call()
        elif _INSIDE.get().isdisjoint((self._call, self._insider)):
            raise ConcurrentUse(
                f"{self._name} is used by two tasks at once: a call is under way in another task. Give each "
                "task a consumer of its own, or let one poll and pass records on"
            )
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._call = None
            if self._token is not None:
                # A call that was cancelled ends before those inside it; the last of them runs elsewhere.
                with suppress(ValueError):
                    _INSIDE.reset(self._token)

    async def as_insider(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that may use the consumer, and so may what it gives to await: a listener's.

        It belongs to the consumer, not to the call that happened to be under way when it began: that may be
        cancelled, and another one begun, before it ends.
        """
        _INSIDE.set(_INSIDE.get() | {self._insider})
        return function(*args)


class ThreadCallGuard:
    """For threads: the one whose call is under way keeps others out."""

    def __init__(self, name: str) -> None:
        self.before_call: Callable[[], None] = _nothing_to_settle
        self._name = name
        self._lock = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        this = threading.get_ident()
        if self._owner != this:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentUse(
                    f"{self._name} is used by two threads at once: thread {self._owner} is in a call, and "
                    f"thread {this} began another. Give each thread a consumer of its own; only wakeup may "
                    "be called from any thread"
                )
            self._owner = this
            self.before_call()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = 0
            self._lock.release()
