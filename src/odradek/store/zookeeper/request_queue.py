"""The requests of one session, in call order: a bounded window in flight, the others waiting.

Requests are sent only while there is a connection. Without one, a request waits for at most the session
timeout and then fails as ``Unavailable``. A request in flight when the connection breaks fails the same way:
its result is unknown.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

from kazoo.exceptions import ConnectionLoss

from odradek.store.port import StoreError, Unavailable
from odradek.store.zookeeper.client import Deliver
from odradek.store.zookeeper.errors import store_error

_WAITING_MAX: Final = 100_000


class _Request:
    __slots__ = ("body", "done", "issued_s", "on_success", "path")

    def __init__(
        self, body: Any, path: str, issued_s: float, on_success: Callable[[Any], None] | None
    ) -> None:
        self.body = body
        self.path = path
        self.issued_s = issued_s
        self.on_success = on_success
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, error: StoreError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class RequestQueue:
    def __init__(self, send: Callable[[Any, Deliver], None], in_flight_max: int, wait_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._in_flight_max = in_flight_max
        self._wait_s = wait_s
        self._waiting: deque[_Request] = deque()
        self._in_flight: dict[_Request, None] = {}
        self._disconnected_s: float | None = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        return self._disconnected_s is None

    def submit(
        self, body: Any, path: str, on_success: Callable[[Any], None] | None = None
    ) -> asyncio.Future[Any]:
        """Send a request as soon as possible.

        ``on_success`` is called with the response when it arrives, before any event that follows it.
        """
        if len(self._waiting) >= _WAITING_MAX:
            raise Unavailable(path, f"request queue is full ({_WAITING_MAX} requests)")
        request = _Request(body, path, self._loop.time(), on_success)
        self._waiting.append(request)
        self._send_waiting()
        self._watch_deadlines()
        return request.done

    def connect(self) -> None:
        """Send the waiting requests: there is a connection."""
        self._disconnected_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send_waiting()

    def disconnect(self) -> None:
        """Hold requests back: the connection is lost."""
        if self._disconnected_s is None:
            self._disconnected_s = self._loop.time()
            self._watch_deadlines()

    def end(self, error: StoreError) -> None:
        """Fail all requests."""
        if self._timer is not None:
            self._timer.cancel()
        for request in self._pending():
            request.fail(type(error)(error.path, error.detail))
        self._waiting.clear()

    async def drain(self) -> None:
        """Wait until all requests are complete, or for as long as a session lives without its server."""
        futures = [request.done for request in self._pending() if not request.done.done()]
        if futures and self._disconnected_s is None:
            await asyncio.wait(futures, timeout=self._wait_s)

    def _send_waiting(self) -> None:
        while self._waiting and self._disconnected_s is None and len(self._in_flight) < self._in_flight_max:
            request = self._waiting.popleft()
            if not request.done.done():  # else its caller was cancelled
                self._in_flight[request] = None
                self._send(request.body, partial(self._deliver, request))

    def _deliver(self, request: _Request, value: Any, exception: Exception | None) -> None:
        if request not in self._in_flight:  # kazoo fails a request twice if it is closed meanwhile
            return
        del self._in_flight[request]
        if isinstance(exception, ConnectionLoss):
            self.disconnect()  # ahead of the news, so that a retry waits for the next connection
        if exception is not None:
            request.fail(store_error(exception, request.path))
        elif not request.done.done():
            if request.on_success is not None:
                request.on_success(value)
            request.done.set_result(value)
        self._send_waiting()

    def _pending(self) -> Iterator[_Request]:
        return chain(list(self._in_flight), list(self._waiting))

    def _watch_deadlines(self) -> None:
        """Make the timer fire at the deadline of the oldest request, while there is no connection."""
        if self._timer is None and self._disconnected_s is not None:
            deadlines = [self._deadline(request) for request in self._pending() if not request.done.done()]
            if deadlines:
                self._timer = self._loop.call_at(min(deadlines), self._fail_overdue)

    def _deadline(self, request: _Request) -> float:
        assert self._disconnected_s is not None
        return max(request.issued_s, self._disconnected_s) + self._wait_s

    def _fail_overdue(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for request in self._pending():
            if self._deadline(request) <= now_s:
                request.fail(
                    Unavailable(request.path, f"no connection to ZooKeeper for {self._wait_s:g} seconds")
                )
        self._waiting = deque(request for request in self._waiting if not request.done.done())
        self._watch_deadlines()
