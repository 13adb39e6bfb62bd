"""The controller's queue of events, handled one at a time.

A change in the store does not carry values: it queues a read, which runs when its turn comes. Reads with the
same key are queued once, because one read sees all changes before it; so the queue does not grow with the
number of changes. Requests that wait for a reply are bounded; answers of brokers are bounded by the requests
to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

from odradek.controller.events import ControllerEvent
from odradek.model.errors import BrokerError, ErrorCode

SUBMITTED_MAX: Final = 10_000
"""Requests that wait for a reply; further ones are refused, and their senders retry."""

ReadEvent = Callable[[], Awaitable[ControllerEvent | None]]
"""Reads what has changed; None if there is nothing to handle."""


class QueuedEvent:
    """An event, or a read that returns it; ``reply`` is set if somebody waits for one."""

    __slots__ = ("event", "key", "read", "reply")

    def __init__(
        self,
        event: ControllerEvent | None,
        read: ReadEvent | None = None,
        key: Hashable = None,
        reply: asyncio.Future[Any] | None = None,
    ) -> None:
        self.event = event
        self.read = read
        self.key = key
        self.reply = reply

    def fail(self, error: Exception) -> None:
        """Refuse a reply. Does nothing if there is one, or nobody waits."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(error)

    def complete(self, reply: Any) -> None:
        if self.reply is not None and not self.reply.done():  # the caller may have been cancelled
            self.reply.set_result(reply)


class EventQueue:
    def __init__(self) -> None:
        self._events: asyncio.Queue[QueuedEvent] = asyncio.Queue()
        self._keys: set[Hashable] = set()
        self._submitted_count = 0
        self._is_closed = False

    def put(self, event: ControllerEvent) -> None:
        if not self._is_closed:
            self._events.put_nowait(QueuedEvent(event))

    def put_read(self, key: Hashable, read: ReadEvent) -> None:
        """Queue a read, unless one with this key is waiting."""
        if not self._is_closed and key not in self._keys:
            self._keys.add(key)
            self._events.put_nowait(QueuedEvent(None, read, key))

    def submit(self, event: ControllerEvent) -> asyncio.Future[Any]:
        """Queue an event; return a future with its reply. Raises ``BrokerError``."""
        if self._is_closed:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        if self._submitted_count >= SUBMITTED_MAX:
            raise BrokerError(
                ErrorCode.REQUEST_TIMED_OUT, f"{SUBMITTED_MAX} requests are waiting for the controller"
            )
        self._submitted_count += 1
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._events.put_nowait(QueuedEvent(event, reply=reply))
        return reply

    async def get(self) -> QueuedEvent:
        """Wait for the next event; ``done`` must follow."""
        queued = await self._events.get()
        # A change from now on is read once more.
        self._keys.discard(queued.key)
        if queued.reply is not None:
            self._submitted_count -= 1
        return queued

    def done(self) -> None:
        self._events.task_done()

    @property
    def is_empty(self) -> bool:
        return self._events.empty()

    async def join(self) -> None:
        """Wait until all events so far are handled."""
        await self._events.join()

    def close(self) -> None:
        """Drop all events; those that wait for a reply get NOT_CONTROLLER."""
        self._is_closed = True
        while not self._events.empty():
            self._events.get_nowait().fail(BrokerError(ErrorCode.NOT_CONTROLLER))
            self._events.task_done()
