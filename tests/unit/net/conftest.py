"""Fixtures of the net tests: a scripted broker, and a network client on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any

import pytest

from odradek.net.broker_connection import Handshake
from odradek.net.connection_pool import ConnectionPool
from odradek.net.connection_state import ConnectionSettings
from odradek.ports.network import Connection
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryListener, MemoryNetwork
from odradek.wire.apis import API_BY_KEY
from odradek.wire.frames import FrameReader
from odradek.wire.headers import RequestHeader, decode_request_header, response_header_is_flexible
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.messages.list_groups import ListGroupsResponse

OFFERED_VERSIONS = {3: (0, 12), 16: (0, 4), 18: (0, 3)}
_SIZE = Struct(">i")


class ScriptedBroker:
    """Broker at ``broker:9092``. ``respond`` returns the bytes of a response, or None for none."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network
        self.offered_versions: dict[int, tuple[int, int]] = dict(OFFERED_VERSIONS)
        self.requests: list[RequestHeader] = []
        self.connected_ms: list[int] = []
        self.connections: list[_ScriptedConnection] = []
        self.respond: Callable[[RequestHeader, Any], bytes | None] = self.default_response
        self._listener: MemoryListener | None = None

    async def listen(self, host: str = "broker", port: int = 9092) -> None:
        self._listener = await self.network.host(host).listen("", port, self._accept)

    def crash(self) -> None:
        """Simulate a crash: close the port and all connections."""
        if self._listener is not None:
            self._listener.close()
        for server_connection in list(self.connections):
            server_connection.connection.close()

    def default_response(self, header: RequestHeader, request: Any) -> bytes | None:
        del request
        if header.api_key == 18:
            return self.api_versions_response(header)
        return reply(header, ListGroupsResponse())

    def api_versions_response(self, header: RequestHeader) -> bytes:
        first, last = self.offered_versions[18]
        offers = [ApiVersion(key, *some) for key, some in self.offered_versions.items()]
        if not first <= header.api_version <= last:
            error_body = encoder(ApiVersionsResponse, 0)(ApiVersionsResponse(error_code=35))
            return framed(response_header(header) + error_body)
        return reply(header, ApiVersionsResponse(api_keys=offers))

    def _accept(self, connection: Connection) -> _ScriptedConnection:
        self.connected_ms.append(int(asyncio.get_running_loop().time() * 1000))
        server_connection = _ScriptedConnection(self, connection)
        self.connections.append(server_connection)
        return server_connection


class _ScriptedConnection:
    def __init__(self, scripted: ScriptedBroker, connection: Connection) -> None:
        self.scripted = scripted
        self.connection = connection
        self.frames = FrameReader(1 << 20)

    def receive_buffer(self) -> memoryview:
        return self.frames.buffer()

    def bytes_received(self, count: int) -> None:
        for frame in self.frames.received(count):
            header, position = decode_request_header(frame)
            self.scripted.requests.append(header)
            request = None
            if header.api_key in API_BY_KEY and header.api_version in API_BY_KEY[header.api_key].versions:
                request, _ = decoder(API_BY_KEY[header.api_key].request, header.api_version)(frame, position)
            response = self.scripted.respond(header, request)
            if response is not None:
                self.connection.send([response])

    def output_drained(self) -> None:
        pass

    def connection_lost(self, reason: str | None) -> None:
        del reason
        self.scripted.connections.remove(self)


def framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def response_header(header: RequestHeader) -> bytes:
    tags = b"\0" if response_header_is_flexible(header.api_key, header.api_version) else b""
    return header.correlation_id.to_bytes(4, "big") + tags


def reply(header: RequestHeader, message: Any) -> bytes:
    return framed(response_header(header) + encoder(message.__class__, header.api_version)(message))


class NetHarness:
    """Connection pool with a scripted broker as node 1."""

    def __init__(self, limits: ConnectionSettings) -> None:
        self.network = MemoryNetwork(SeededEntropy())
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.scripted = ScriptedBroker(self.network)
        self._limits = limits
        self.pool = self.make_pool()
        self.pool.put_node(1, "broker", 9092)
        self.reply = reply

    def make_pool(self, handshake: Handshake | None = None) -> ConnectionPool:
        local = self.network.host("client")
        return ConnectionPool(local, self.clock, SeededEntropy(), self._limits, "tester", handshake)


@pytest.fixture(scope="session")
def run_scenario() -> Callable[..., None]:
    """Run a scenario; no connection or task may be left at its end."""

    def run(
        scenario: Callable[[NetHarness], Awaitable[None]],
        limits: ConnectionSettings | None = None,
        *,
        is_listening: bool = True,
    ) -> None:
        async def main() -> None:
            harness = NetHarness(limits or ConnectionSettings())
            if is_listening:
                await harness.scripted.listen()
            await scenario(harness)
            await harness.pool.close()
            assert [
                connection for connection in harness.network.connections if connection.host == "client"
            ] == []
            assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

        run_virtually(main)

    return run
