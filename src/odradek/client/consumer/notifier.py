"""How waiting calls hear that something has happened: records came, a position is known, ``wakeup``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from odradek.model.client_errors import WakeupError

T = TypeVar("T")

_LONG_MS: Final = 3_600_000


class Notifier:
    """Lives on one event loop; only ``wake`` may be called from any thread.

    Whoever waits remembers ``count`` before it looks around: what is told after that ends its wait at once. A
    call may wait inside another, as a listener does that is called by a poll.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Have waiting calls look again."""
        self.count += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            _end(each)

    def wakeup(self) -> None:
        """End the waiting call, or the next one, with ``WakeupError``."""
        self.is_woken = True
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits there
                loop.call_soon_threadsafe(self.tell)

    def raise_if_woken(self) -> None:
        if self.is_woken:
            self.is_woken = False
            raise WakeupError("wakeup was called")

    async def wait(self, since: int, timeout_ms: int) -> None:
        """Until there is news since a count, or the time is over."""
        self._loop = loop = asyncio.get_running_loop()
        if self.count != since or self.is_woken:
            await asyncio.sleep(0)  # others have a right to run, however much news there is
            return
        waiting = loop.create_future()
        self._waiting.append(waiting)
        alarm = loop.call_later(timeout_ms / 1000, _end, waiting)
        try:
            await waiting
        finally:
            alarm.cancel()
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    async def unless_woken(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, which ``wake`` ends."""
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work)
        task.add_done_callback(lambda _: self.tell())
        try:
            while not task.done():
                since = self.count
                self.raise_if_woken()
                await self.wait(since, _LONG_MS)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        return task.result()


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
