"""Blocking and asyncio clients behind one interface, so that one test covers both.

``BlockingClients`` returns the clients as they are. ``AsyncioClients`` runs the asyncio clients on a loop in
a thread and waits for their coroutines, so that a test reads the same for both:
``producer.send(…).result()``.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

CALL_SECONDS_MAX = 100


class BlockingClients:
    """Clients of ``odradek``."""

    name = "blocking"

    def __init__(self) -> None:
        self._clients: list[Any] = []

    def producer(self, *args: Any, **options: Any) -> Any:
        import odradek

        return self._keep(odradek.Producer(*args, **options))

    def consumer(self, *args: Any, **options: Any) -> Any:
        import odradek

        return self._keep(odradek.Consumer(*args, **options))

    def admin(self, *args: Any, **options: Any) -> Any:
        import odradek

        return self._keep(odradek.Admin(*args, **options))

    def close(self) -> None:
        """Close all clients, the latest first. Idempotent."""
        while self._clients:
            self._clients.pop().close()

    def _keep(self, client: Any) -> Any:
        self._clients.append(client)
        return client


class AsyncioClients:
    """Clients of ``odradek.aio``, on their own event loop."""

    name = "asyncio"

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asyncio-clients")
        self._thread.start()
        self._clients: list[SyncClient] = []

    def producer(self, *args: Any, **options: Any) -> Any:
        import odradek.aio

        return self._make(odradek.aio.Producer, args, options)

    def consumer(self, *args: Any, **options: Any) -> Any:
        import odradek.aio

        return self._make(odradek.aio.Consumer, args, options)

    def admin(self, *args: Any, **options: Any) -> Any:
        import odradek.aio

        return self._make(odradek.aio.Admin, args, options)

    def close(self) -> None:
        """Close all clients, then the loop; fail on leaked tasks."""
        while self._clients:
            self._clients.pop().close()
        leaked = self.call(_other_tasks)
        # Name resolution leaves threads of the loop, as under asyncio.run.
        self.call(self._loop.shutdown_default_executor)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
        self._loop.close()
        assert not leaked, f"leaked tasks: {leaked}"

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function on the loop, and return its result, awaited if it is a coroutine."""

        async def called() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(CALL_SECONDS_MAX)

    def wait(self, awaitable: Any, timeout_s: float | None) -> Any:
        async def waited() -> Any:
            async with asyncio.timeout(timeout_s):
                return await awaitable

        return asyncio.run_coroutine_threadsafe(waited(), self._loop).result(CALL_SECONDS_MAX)

    def _make(self, kind: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> SyncClient:
        client = SyncClient(self, self.call(kind, *args, **options))
        self._clients.append(client)
        return client


class SyncClient:
    """An asyncio client with blocking methods."""

    def __init__(self, clients: AsyncioClients, client: Any) -> None:
        self._clients = clients
        self._client = client

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            result = self._clients.call(attribute, *args, **kwargs)
            return SyncAwaitable(self._clients, result) if hasattr(result, "__await__") else result

        return call

    def __iter__(self) -> Iterator[Any]:
        records = self._clients.call(self._client.__aiter__)
        while True:
            try:
                yield self._clients.call(records.__anext__)
            except StopAsyncIteration:
                return

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncAwaitable:
    """An awaitable with the interface of its blocking counterpart."""

    def __init__(self, clients: AsyncioClients, awaitable: Any) -> None:
        self._clients = clients
        self._awaitable = awaitable

    def result(self, timeout_s: float | None = None) -> Any:
        return self._clients.wait(self._awaitable, timeout_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._awaitable, name)


async def _other_tasks() -> list[str]:
    await asyncio.sleep(0)
    return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


Clients = BlockingClients | AsyncioClients
