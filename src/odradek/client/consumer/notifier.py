"""Notifies waiting calls of a change: records arrived, a position is known, ``wakeup`` was called."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from odradek.model.client_errors import WakeupError

T = TypeVar("T")

_WAIT_MS: Final = 3_600_000


class Notifier:
    """Wait and notify on one event loop; only ``wakeup`` is thread-safe.

    Read ``count`` before checking the condition and pass it to ``wait``: a notification since then ends the
    wait at once. Waits may nest, as in a rebalance listener called by a poll.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Have waiting calls check their condition again."""
        self.count += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _complete(waiter)

    def wakeup(self) -> None:
        """Interrupt the waiting call, or the next one, with ``WakeupError``."""
        self.is_woken = True
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed: no call waits on it
                loop.call_soon_threadsafe(self.notify)

    def raise_if_woken(self) -> None:
        if self.is_woken:
            self.is_woken = False
            raise WakeupError("wakeup was called")

    async def wait(self, since: int, timeout_ms: int) -> None:
        """Wait for a notification since ``count`` was ``since``, or for the timeout."""
        self._loop = loop = asyncio.get_running_loop()
        if self.count != since or self.is_woken:
            await asyncio.sleep(0)  # let other tasks run even under constant notifications
            return
        waiter = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(timeout_ms / 1000, _complete, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def run_interruptible(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; ``wakeup`` cancels it."""
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(coroutine)
        task.add_done_callback(lambda _: self.notify())
        try:
            while not task.done():
                since = self.count
                self.raise_if_woken()
                await self.wait(since, _WAIT_MS)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        return task.result()


def _complete(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
