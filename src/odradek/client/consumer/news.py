"""How a waiting call hears that something has happened: records came, a position is known, ``wakeup``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from odradek.model.client_errors import Woken

T = TypeVar("T")


class News:
    """On one event loop, for one waiting call; only ``wake`` may be called from any thread."""

    def __init__(self) -> None:
        self.is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._is_news = False

    def tell(self) -> None:
        """Have the waiting call look again; if none waits, the next wait ends at once."""
        self._is_news = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def wake(self) -> None:
        """End the waiting call, or the next one, with ``Woken``."""
        self.is_woken = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.tell)

    def raise_if_woken(self) -> None:
        if self.is_woken:
            self.is_woken = False
            raise Woken("wakeup was called")

    async def wait(self, timeout_ms: int) -> None:
        """Until there is news, or the time is over."""
        self._loop = loop = asyncio.get_running_loop()
        if not self._is_news and not self.is_woken:
            waiting = self._waiting = loop.create_future()
            alarm = loop.call_later(timeout_ms / 1000, _end, waiting)
            try:
                await waiting
            finally:
                alarm.cancel()
                self._waiting = None
        self._is_news = False

    async def unless_woken(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, which ``wake`` ends."""
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work)
        task.add_done_callback(lambda _: self.tell())
        try:
            while not task.done():
                self.raise_if_woken()
                await self.wait(_LONG_MS)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        return task.result()


_LONG_MS = 3_600_000


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
