"""Proxies in front of the brokers' inter-broker listeners, which keep every request and response.

All proxies share one thread and event loop, so that the order of the exchanges is the order in which
requests arrived, across brokers.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections import deque
from contextlib import suppress

from tests.support.interbroker.exchange import FETCH, Exchange

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Recorder(threading.Thread):
    """Listens on a port for each broker; forwards frames and keeps them in ``exchanges``."""

    def __init__(self, ports: dict[int, tuple[int, int]]) -> None:
        """``ports`` maps a broker to the port it advertises and the port it listens on."""
        super().__init__(daemon=True)
        self.exchanges: list[Exchange] = []
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._last_change_s = time.monotonic()

    @property
    def quiet_s(self) -> float:
        """Seconds since the last request or response other than Fetch."""
        return time.monotonic() - self._last_change_s

    def start(self) -> None:
        super().start()
        self._listening.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        servers = [self._loop.run_until_complete(self._listen(broker)) for broker in self._ports]
        self._listening.set()
        self._loop.run_forever()
        for server in servers:
            server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    async def _listen(self, broker: int) -> asyncio.Server:
        advertised, actual = self._ports[broker]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(broker, actual, (reader, writer))

        return await asyncio.start_server(serve, "127.0.0.1", advertised)

    async def _serve(self, target: int, port: int, source: Streams) -> None:
        writers = [source[1]]
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                broker = await asyncio.open_connection("127.0.0.1", port)
                writers.append(broker[1])
                await self._forward(target, source, broker)
            finally:
                for writer in writers:
                    writer.close()

    async def _forward(self, target: int, source: Streams, broker: Streams) -> None:
        pending: deque[Exchange] = deque()
        directions = [
            asyncio.ensure_future(self._forward_requests(target, source[0], broker[1], pending)),
            asyncio.ensure_future(self._forward_responses(broker[0], source[1], pending)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _forward_requests(
        self,
        target: int,
        source: asyncio.StreamReader,
        broker: asyncio.StreamWriter,
        pending: deque[Exchange],
    ) -> None:
        while True:
            frame = await _read_frame(source)
            exchange = Exchange(target, _now_ms(), frame[4:])
            self.exchanges.append(exchange)
            pending.append(exchange)
            self._note(exchange)
            broker.write(frame)
            await broker.drain()

    async def _forward_responses(
        self, broker: asyncio.StreamReader, source: asyncio.StreamWriter, pending: deque[Exchange]
    ) -> None:
        while True:
            frame = await _read_frame(broker)
            exchange = pending.popleft()
            if frame[4:8] != exchange.request[4:8]:
                raise AssertionError("responses must arrive in the order of their requests")
            exchange.responded_ms, exchange.response = _now_ms(), frame[4:]
            self._note(exchange)
            source.write(frame)
            await source.drain()

    def _note(self, exchange: Exchange) -> None:
        if exchange.api_key != FETCH:
            self._last_change_s = time.monotonic()


def _now_ms() -> int:
    """Wall milliseconds, as in ZooKeeper's log."""
    return time.time_ns() // 1_000_000


async def _read_frame(stream: asyncio.StreamReader) -> bytes:
    """Read the next frame, with its length."""
    prefix = await stream.readexactly(4)
    return prefix + await stream.readexactly(struct.unpack(">i", prefix)[0])
