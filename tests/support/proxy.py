"""A proxy that recognises requests and can kill a process at a chosen one.

It splits a connection into frames, reads API key and client id, and forwards them. One kill point may be
armed at a time for a client: when the request arrives, the victim is killed before it is forwarded, right
after that, when its response arrives, or after the response has been forwarded. Requests of chosen APIs are
sent to the broker twice with a probability of one in ten, as after a retry whose first attempt was not
lost. Clients reach the broker only through the proxy, which is the advertised listener.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

DOUBLED_SHARE = 0.1
CLOSING_PASSES = 3
"""Loop iterations after which aborted transports are closed."""


class Moment(Enum):
    """Moment of the kill."""

    BEFORE = "before it is sent"
    UNDER_WAY = "as it is under way"
    UNANSWERED = "before its answer"
    ANSWERED = "after its answer"


class Point(NamedTuple):
    """The next request of an API by a client, and the moment of the kill."""

    client_id: str
    api_key: int
    moment: Moment


class Trap:
    """An armed kill point."""

    def __init__(self, point: Point, kill: Callable[[], None]) -> None:
        self.point = point
        self._kill = kill
        self._sprung = threading.Event()

    def spring(self) -> None:
        """Kill the victim and drop the connection of the request."""
        self._kill()
        self._sprung.set()
        raise ConnectionAbortedError("the point was reached")

    @property
    def has_sprung(self) -> bool:
        return self._sprung.is_set()

    def wait(self, seconds_max: float) -> bool:
        """Wait until the victim is dead; return whether it is."""
        return self._sprung.wait(seconds_max)


class Awaited(NamedTuple):
    """A pending response, in order."""

    trap: Trap | None
    is_dropped: bool = False


class Proxy(threading.Thread):
    """Listens on its own port, in its own thread and event loop."""

    def __init__(self, port: int, broker_port: int, doubled: Container[int], seed: int) -> None:
        """``doubled`` are the API keys of requests that may be sent twice."""
        super().__init__(daemon=True)
        self._doubled = doubled
        self._rng = random.Random(seed)
        self.doubled = 0
        self._port = port
        self._broker_port = broker_port
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._traps: list[Trap] = []
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        super().start()
        self._listening.wait()

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self._port))
        self._listening.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(self._end_connections())
        self._loop.close()

    async def _end_connections(self) -> None:
        """Close all transports: an open one would warn during another test."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for _ in range(CLOSING_PASSES):
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()

    def arm(self, point: Point, kill: Callable[[], None]) -> Trap:
        """Arm a kill point; ``kill`` is called in the proxy's thread."""
        trap = Trap(point, kill)
        self._loop.call_soon_threadsafe(self._traps.append, trap)
        return trap

    def disarm(self, trap: Trap) -> None:
        def remove() -> None:
            if trap in self._traps:
                self._traps.remove(trap)

        self._loop.call_soon_threadsafe(remove)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                upstream = await asyncio.open_connection("127.0.0.1", self._broker_port)
                writers.append(upstream[1])
                self._writers.add(upstream[1])
                await self._hand_on((reader, writer), upstream)
            finally:
                for opened in writers:
                    opened.close()

    async def _hand_on(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        waiting: deque[Awaited] = deque()
        ways = [
            asyncio.ensure_future(self._requests(client[0], broker[1], waiting)),
            asyncio.ensure_future(self._responses(broker[0], client[1], waiting)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            broker[1].close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter, waiting: deque[Awaited]
    ) -> None:
        while True:
            frame = await _frame(client)
            trap = self._trap_for(frame)
            if trap is not None and trap.point.moment is Moment.BEFORE:
                trap.spring()
            if self._comes_twice(frame):
                waiting.append(Awaited(None, is_dropped=True))
                broker.write(frame)
            waiting.append(Awaited(trap))
            broker.write(frame)
            await broker.drain()
            if trap is not None and trap.point.moment is Moment.UNDER_WAY:
                trap.spring()

    async def _responses(
        self, broker: asyncio.StreamReader, client: asyncio.StreamWriter, waiting: deque[Awaited]
    ) -> None:
        while True:
            frame = await _frame(broker)
            trap, is_dropped = waiting.popleft()
            if is_dropped:
                continue
            if trap is not None and trap.point.moment is Moment.UNANSWERED:
                trap.spring()
            client.write(frame)
            await client.drain()
            if trap is not None and trap.point.moment is Moment.ANSWERED:
                trap.spring()

    def _comes_twice(self, frame: bytes) -> bool:
        is_chosen = struct.unpack_from(">h", frame, 4)[0] in self._doubled
        if is_chosen and self._rng.random() < DOUBLED_SHARE:
            self.doubled += 1
            return True
        return False

    def _trap_for(self, frame: bytes) -> Trap | None:
        """Remove and return the trap for this request, if any."""
        api_key, _, _, size = struct.unpack_from(">hhih", frame, 4)
        client_id = frame[14 : 14 + max(size, 0)].decode()
        for trap in self._traps:
            if (trap.point.client_id, trap.point.api_key) == (client_id, api_key):
                self._traps.remove(trap)
                return trap
        return None


async def _frame(stream: asyncio.StreamReader) -> bytes:
    """Read the next frame, with its length."""
    prefix = await stream.readexactly(4)
    return prefix + await stream.readexactly(struct.unpack(">i", prefix)[0])
