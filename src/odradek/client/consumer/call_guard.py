"""Guards that raise ``ConcurrentUse`` when two threads or tasks use one consumer at once.

Nested calls are allowed: a rebalance listener, called by ``poll``, may commit and seek. Each outermost call
runs ``before_call`` first, which returns records that a loop took and did not consume.
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
"""Calls that contain the running code; tasks started by a call inherit it."""


def _do_nothing() -> None:
    return


class TaskCallGuard:
    """Guard for asyncio: excludes every task except that of the call and those it starts."""

    def __init__(self, name: str) -> None:
        self.before_call: Callable[[], None] = _do_nothing
        self._name = name
        self._call: object | None = None
        self._token: contextvars.Token[frozenset[object]] | None = None
        self._callback_token = object()
        self._depth = 0

    def __enter__(self) -> None:
        if self._call is None:
            self._call = object()
            self._token = _INSIDE.set(_INSIDE.get() | {self._call})
            self.before_call()
        elif _INSIDE.get().isdisjoint((self._call, self._callback_token)):
            raise ConcurrentUse(
                f"{self._name} must not be used by two tasks at once: another task is in a call. Use one "
                "consumer per task, or poll in one task and pass the records on"
            )
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._call = None
            if self._token is not None:
                # A cancelled call may end before the calls nested in it, which then end in another context.
                with suppress(ValueError):
                    _INSIDE.reset(self._token)

    async def run_inside_call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a user callback that may use the consumer, as may the awaitable it returns.

        The callback belongs to the consumer, not to the current call: that may be cancelled, and another one
        started, before the callback ends.
        """
        _INSIDE.set(_INSIDE.get() | {self._callback_token})
        return function(*args)


class ThreadCallGuard:
    """Guard for threads: excludes every thread except the one in a call."""

    def __init__(self, name: str) -> None:
        self.before_call: Callable[[], None] = _do_nothing
        self._name = name
        self._lock = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        current = threading.get_ident()
        if self._owner != current:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentUse(
                    f"{self._name} must not be used by two threads at once: thread {self._owner} is in a "
                    f"call, thread {current} started another. Use one consumer per thread; only wakeup may "
                    "be called from any thread"
                )
            self._owner = current
            self.before_call()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = 0
            self._lock.release()
