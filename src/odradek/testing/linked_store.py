"""Sessions of an embedded store with a connection that can break, as one to ZooKeeper does.

For tests and simulations. A call without a connection waits for it, at most for the session timeout; one in
flight when the connection breaks fails as ``Unavailable``. Events wait for the connection. The store expires
a session that has no connection for the session timeout; the session learns it with its next connection.

The server of a session may lag behind the others: calls are executed, but events and responses are late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from odradek.store.embedded.ensemble import CallSoon, EmbeddedEnsemble
from odradek.store.port import (
    MATCH_ANY_VERSION,
    Node,
    Op,
    OpResult,
    SessionExpired,
    Stat,
    Unavailable,
    WatchedEvent,
    Watcher,
)

T = TypeVar("T")


class LinkedStore:
    """A session; implements ``Store``."""

    def __init__(
        self, ensemble: EmbeddedEnsemble, session_timeout_s: float, call_soon: CallSoon | None = None
    ) -> None:
        """``call_soon`` schedules callbacks, by default on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._call_soon: CallSoon = call_soon or self._loop.call_soon
        self._ensemble = ensemble
        self._timeout_s = session_timeout_s
        self._inner = ensemble.connect(call_soon)
        self._inner.on_expired(self._learn_expiry)
        self._on_expired: list[Callable[[], None]] = []
        self._is_alive = True
        self._is_connected = True
        self._has_expired = False
        self._waiting: list[asyncio.Future[None]] = []
        self._in_flight: list[asyncio.Future[None]] = []
        self._unsent_events: list[tuple[Watcher, WatchedEvent]] = []
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._expiry: asyncio.Task[None] | None = None
        self._holds_requests = False
        self._holds_responses = False
        self._caught_up: asyncio.Future[None] | None = None
        """While the server lags, completed by ``catch_up``."""
        self.held = asyncio.Event()

    # The link

    def disconnect(self) -> None:
        """Break the connection: calls in flight fail, and what is held is lost."""
        if not self._is_connected:
            return
        self._is_connected = False
        self._holds_requests = self._holds_responses = False
        self.held.clear()
        in_flight, self._in_flight = self._in_flight, []
        for lost in in_flight:
            if not lost.done():
                lost.set_result(None)
        self._expiry_timer = self._loop.call_later(self._timeout_s, self._expire)

    def reconnect(self) -> None:
        """Restore the connection. Events go ahead of the calls that waited."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._is_connected = True
        if self._has_expired:
            self._end()
        self.catch_up()
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            if not ready.done():
                ready.set_result(None)

    def lag(self) -> None:
        """Delay events and responses until ``catch_up`` or a new connection."""
        if self._caught_up is None:
            self._caught_up = self._loop.create_future()

    def catch_up(self) -> None:
        """Send the delayed events, then the responses."""
        events, self._unsent_events = self._unsent_events, []
        for watcher, event in events:
            self._call_soon(partial(self.deliver, watcher, event))
        caught_up, self._caught_up = self._caught_up, None
        if caught_up is not None:
            caught_up.set_result(None)

    def hold_requests(self) -> None:
        self._holds_requests = True

    def hold_responses(self) -> None:
        self._holds_responses = True

    def _expire(self) -> None:
        self._expiry = self._loop.create_task(self._ensemble.expire(self.session_id))

    def _learn_expiry(self) -> None:
        self._has_expired = True
        if self._is_connected:
            self._end()

    def _end(self) -> None:
        if self._is_alive:
            self._is_alive = False
            for callback in self._on_expired:
                self._call_soon(callback)

    async def _call(self, path: str, operation: Callable[[], Awaitable[T]]) -> T:
        self._require_alive()
        if not self._is_connected:
            await self._wait_for_connection(path)
        lost = self._loop.create_future()
        self._in_flight.append(lost)
        if self._holds_requests:
            self.held.set()
            await lost
            raise Unavailable(path, "the connection broke before the request arrived")
        call = asyncio.ensure_future(operation())
        try:
            await asyncio.wait([call, lost], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The process that asked was killed: nobody awaits the result, or its error.
            call.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        if self._holds_responses and not lost.done():
            self.held.set()
            await lost
        if self._caught_up is not None:
            await asyncio.wait([self._caught_up, lost], return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            await asyncio.wait([call])
            call.exception()
            raise Unavailable(path, "the connection broke before the response")
        self._in_flight.remove(lost)
        return await call

    async def _wait_for_connection(self, path: str) -> None:
        ready = self._loop.create_future()
        self._waiting.append(ready)
        done, _ = await asyncio.wait([ready], timeout=self._timeout_s)
        if not done:
            self._waiting.remove(ready)
            raise Unavailable(path, f"no connection for {self._timeout_s:g} seconds")
        self._require_alive()

    def _require_alive(self) -> None:
        if not self._is_alive:
            raise SessionExpired(detail=f"session {self.session_id:#x}")

    def deliver(self, watcher: Watcher, event: WatchedEvent) -> None:
        """Call a watcher, once there is a connection."""
        if not self._is_alive:
            return
        if self._is_connected and not self._holds_responses and self._caught_up is None:
            watcher(event)
        else:
            self._unsent_events.append((watcher, event))

    # Store

    @property
    def session_id(self) -> int:
        return self._inner.session_id

    def on_expired(self, callback: Callable[[], None]) -> None:
        self._on_expired.append(callback)

    async def get(self, path: str) -> Node:
        return await self._call(path, lambda: self._inner.get(path))

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        requested = list(paths)
        return await self._call("", lambda: self._inner.get_many(requested))

    async def exists(self, path: str) -> Stat | None:
        return await self._call(path, lambda: self._inner.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._call(path, lambda: self._inner.children(path))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        return await self._call(
            path, lambda: self._inner.create(path, data, ephemeral=ephemeral, sequence=sequence)
        )

    async def set(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> Stat:
        return await self._call(path, lambda: self._inner.set(path, data, version))

    async def delete(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        await self._call(path, lambda: self._inner.delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        return await self._call(ops[0].path if ops else "", lambda: self._inner.multi(ops))

    async def ensure_path(self, path: str) -> None:
        await self._call(path, lambda: self._inner.ensure_path(path))

    async def watch_data(self, path: str, watcher: Watcher) -> Node:
        return await self._call(path, lambda: self._inner.watch_data(path, _LinkedWatcher(self, watcher)))

    async def watch_exists(self, path: str, watcher: Watcher) -> Stat | None:
        return await self._call(path, lambda: self._inner.watch_exists(path, _LinkedWatcher(self, watcher)))

    async def watch_children(self, path: str, watcher: Watcher) -> list[str]:
        return await self._call(path, lambda: self._inner.watch_children(path, _LinkedWatcher(self, watcher)))

    async def close(self) -> None:
        """Close the session; without a connection the store expires it."""
        if self._is_alive:
            self._is_alive = False
            if self._is_connected:
                await self._inner.close()


class _LinkedWatcher:
    """A watcher behind the link; two of the same callback are the same."""

    __slots__ = ("_store", "_watcher")

    def __init__(self, store: LinkedStore, watcher: Watcher) -> None:
        self._store = store
        self._watcher = watcher

    def __call__(self, event: WatchedEvent) -> None:
        self._store.deliver(self._watcher, event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LinkedWatcher) and other._watcher == self._watcher

    def __hash__(self) -> int:
        return hash(self._watcher)
