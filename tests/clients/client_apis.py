"""Both worlds of our clients behind one face, so that one test shows both.

``BlockingClients`` gives the clients as they are. ``AsyncioClients`` runs the asyncio clients on a loop in a
thread and waits for what they promise, so that a test reads the same for both: ``producer.send(…).result()``.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

CALL_SECONDS_MAX = 100


class BlockingClients:
    """The clients of ``odradek``."""

    name = "blocking"

    def __init__(self) -> None:
        self._made: list[Any] = []

    def producer(self, *given: Any, **options: Any) -> Any:
        import odradek

        return self._keep(odradek.Producer(*given, **options))

    def consumer(self, *given: Any, **options: Any) -> Any:
        import odradek

        return self._keep(odradek.Consumer(*given, **options))

    def admin(self, *given: Any, **options: Any) -> Any:
        import odradek

        return self._keep(odradek.Admin(*given, **options))

    def close(self) -> None:
        """Close what was made, the latest first; closing twice is allowed."""
        while self._made:
            self._made.pop().close()

    def _keep(self, client: Any) -> Any:
        self._made.append(client)
        return client


class AsyncioClients:
    """The clients of ``odradek.aio``, on a loop of their own."""

    name = "asyncio"

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asyncio-clients")
        self._thread.start()
        self._made: list[Driven] = []

    def producer(self, *given: Any, **options: Any) -> Any:
        import odradek.aio

        return self._make(odradek.aio.Producer, given, options)

    def consumer(self, *given: Any, **options: Any) -> Any:
        import odradek.aio

        return self._make(odradek.aio.Consumer, given, options)

    def admin(self, *given: Any, **options: Any) -> Any:
        import odradek.aio

        return self._make(odradek.aio.Admin, given, options)

    def close(self) -> None:
        """Close what was made, then the loop; a task left behind is a failure."""
        while self._made:
            self._made.pop().close()
        left = self.call(_other_tasks)
        # Looking up names leaves threads of the loop's own behind, as it does under asyncio.run.
        self.call(self._loop.shutdown_default_executor)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
        self._loop.close()
        assert not left, f"tasks left behind: {left}"

    def call(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """The result of a call made on the loop, awaited if there is something to await."""

        async def called() -> Any:
            result = function(*given, **named)
            return await result if inspect.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(CALL_SECONDS_MAX)

    def wait(self, awaitable: Any, timeout_s: float | None) -> Any:
        async def waited() -> Any:
            async with asyncio.timeout(timeout_s):
                return await awaitable

        return asyncio.run_coroutine_threadsafe(waited(), self._loop).result(CALL_SECONDS_MAX)

    def _make(self, kind: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]) -> Driven:
        made = Driven(self, self.call(kind, *given, **options))
        self._made.append(made)
        return made


class Driven:
    """An asyncio client whose methods are called from a thread without a loop."""

    def __init__(self, clients: AsyncioClients, client: Any) -> None:
        self._clients = clients
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            result = self._clients.call(found, *given, **named)
            return Awaited(self._clients, result) if hasattr(result, "__await__") else result

        return call

    def __iter__(self) -> Iterator[Any]:
        records = self._clients.call(self._client.__aiter__)
        while True:
            try:
                yield self._clients.call(records.__anext__)
            except StopAsyncIteration:
                return

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Awaited:
    """Something to await, with the face of its blocking twin."""

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
