"""A proxy between a ZooKeeper client and its server, on the test's event loop, that can be cut.

It can also hold requests or responses: what is held is lost when the connection is cut. It can leave new
connections without a response. It records the session id that each connection asks for: 0 asks for a new
session.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

_SESSION_ID_AT = 4 + 4 + 8 + 4
"""Length, protocol version, last zxid and timeout precede the session id of a connect request."""


class Link:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._holds_requests = False
        self._holds_responses = False
        self._held = asyncio.Event()
        self.session_ids: list[int] = []
        self.silent_connections = 0
        """Number of next connections that are accepted and get no response."""

    async def open(self) -> int:
        """Listen, and return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break all connections, and each new one, until ``restore``. Nothing is held afterwards."""
        self._is_cut = True
        self._holds_requests = self._holds_responses = False
        self._held.clear()
        for writer in list(self._writers):
            writer.transport.abort()

    def restore(self) -> None:
        self._is_cut = False

    def hold_requests(self) -> None:
        self._holds_requests = True

    def hold_responses(self) -> None:
        self._holds_responses = True

    async def wait_until_held(self) -> None:
        await self._held.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            if self._is_cut:
                return
            server_reader, upstream = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._writers.add(upstream)
            await asyncio.gather(
                self._forward_requests(reader, upstream), self._forward_responses(server_reader, writer)
            )
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, upstream):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()

    async def _forward_requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        is_first, is_silent = True, self.silent_connections > 0
        self.silent_connections -= is_silent
        while data := await reader.read(1 << 16):
            if is_first:
                self.session_ids.append(struct.unpack_from(">q", data, _SESSION_ID_AT)[0])
                is_first = False
            if is_silent:
                continue
            if self._holds_requests:
                self._held.set()
                continue
            server.write(data)
            await server.drain()
        raise EOFError

    async def _forward_responses(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if self._holds_responses:
                self._held.set()
                continue
            with suppress(ConnectionError):
                client.write(data)
                await client.drain()
        raise EOFError
