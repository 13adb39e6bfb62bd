"""Parts shared by the contract tests of the store port."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from odradek.store.port import Store, StoreError, WatchedEvent

EVENT_SECONDS_MAX = 20
"""Bound of the wait for what must happen; a wait that ends here is a failure."""


class StoreFixture(Protocol):
    """An empty store to open sessions on."""

    async def connect(self) -> Store: ...

    async def expire(self, store: Store) -> None:
        """Expire a session, as if its heartbeats had stopped."""
        ...


class ConnectionFixture(StoreFixture, Protocol):
    """A store whose sessions have connections that can break."""

    async def disconnect(self, store: Store) -> None:
        """Break the connection of a session, until ``reconnect``; return when the session knows."""
        ...

    async def reconnect(self, store: Store) -> None: ...

    async def hold_requests(self, store: Store) -> None:
        """Keep requests from the store until the connection breaks: those in flight are lost."""
        ...

    async def hold_responses(self, store: Store) -> None:
        """Keep responses and events from the session until the connection breaks."""
        ...

    async def wait_until_held(self, store: Store) -> None:
        """Wait until a request or a response is held."""
        ...

    def count_sessions(self, store: Store) -> int:
        """Return how many sessions the client of this session has opened."""
        ...


_Fixture = TypeVar("_Fixture", bound=StoreFixture)
_Contract = TypeVar("_Contract", bound="StoreScenarios[Any]")
_Scenario = Callable[[_Contract, Any], Awaitable[None]]


def scenario(body: _Scenario[_Contract]) -> Callable[[_Contract], None]:
    """Turn a coroutine function into a test that runs it on a new store and event loop."""

    async def run(contract: _Contract) -> None:
        async with contract.open() as fixture:
            await body(contract, fixture)

    def test(self: _Contract) -> None:
        asyncio.run(run(self))

    test.__name__ = body.__name__
    test.__doc__ = body.__doc__
    return test


class RecordingWatcher:
    """A watcher that records events."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[WatchedEvent] = asyncio.Queue()
        self.tasks: list[object] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.tasks.append(asyncio.current_task())
        self._events.put_nowait(event)

    async def next(self) -> WatchedEvent:
        return await asyncio.wait_for(self._events.get(), EVENT_SECONDS_MAX)

    async def has_no_more_events(self, store: Store) -> bool:
        """Return whether there are no more events; they come before the response to a later call."""
        await store.exists("/")
        for _ in range(3):
            await asyncio.sleep(0)
        return self._events.empty()


@contextmanager
def raises(error: type[StoreError], path: str | None = None, op_index: int | None = None) -> Iterator[None]:
    caught: StoreError | None = None
    try:
        yield
    except error as raised:
        caught = raised
    assert caught is not None, f"{error.__name__} was not raised"
    assert type(caught) is error, f"{caught!r} is not exactly {error.__name__}"
    assert path is None or caught.path == path, f"{caught.path} instead of {path}"
    assert caught.op_index == op_index, f"operation {caught.op_index} instead of {op_index}"


class StoreScenarios(abc.ABC, Generic[_Fixture]):
    """Base of a contract; a subclass per implementation provides the store."""

    @abc.abstractmethod
    def open(self) -> AbstractAsyncContextManager[_Fixture]: ...
