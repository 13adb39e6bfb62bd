"""A server of a few Kafka APIs for simulations: a table of async functions, responses in request order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from odradek.ports.network import Connection, ListeningSocket
from odradek.testing.network import MemoryHost
from odradek.wire.apis import API_BY_KEY
from odradek.wire.message_codecs import decoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.server_connection import Request, ServerConnection

API_VERSIONS: Final = 18
_FRAME_BYTES_MAX: Final = 1 << 26

Handle = Callable[[Any, int], Awaitable[Any]]
"""Handles a decoded request of a version and returns the response."""


class RequestServer:
    def __init__(self, handlers: Mapping[int, tuple[range, Handle]]) -> None:
        self._handlers = {API_VERSIONS: (range(4), self._api_versions), **handlers}
        self._listener: ListeningSocket | None = None

    async def listen(self, host: MemoryHost, port: int) -> None:
        self._listener = await host.listen(host.name, port, lambda connection: _Session(self, connection))

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    async def handle(self, request: Request) -> list[Any]:
        """Return the parts of the response body."""
        versions, handle = self._handlers[request.api_key]
        api = API_BY_KEY[request.api_key]
        version = request.api_version
        assert version in versions, f"{api.name} version {version} is not served"
        message, _ = decoder(api.request, version)(request.frame, request.body_position)
        return parts_encoder(api.response, version)(await handle(message, version))

    async def _api_versions(self, request: Any, version: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(key, versions.start, versions.stop - 1)
                for key, (versions, _) in sorted(self._handlers.items())
            ]
        )


class _Session:
    """One connection to the server."""

    def __init__(self, server: RequestServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._wire = ServerConnection(_FRAME_BYTES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        for request in self._wire.received(count):
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def output_drained(self) -> None:
        """Do nothing."""

    def connection_lost(self, reason: str | None) -> None:
        for task in self._tasks:
            task.cancel()

    async def _serve(self, request: Request) -> None:
        parts = self._wire.respond(request, await self._server.handle(request))
        if parts:
            self._connection.send(parts)
