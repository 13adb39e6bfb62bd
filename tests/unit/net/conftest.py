"""A broker that answers as a test tells it to, and peers that talk to it on virtual time."""

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
from odradek.wire.headers import RequestHeader, decode_request_header, encode_response_header
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.messages.list_groups import ListGroupsResponse

OFFER = {3: (0, 12), 16: (0, 4), 18: (0, 3)}
_SIZE = Struct(">i")


class Actor:
    """A broker at ``actor:9092``. ``answer`` gives bytes, or None for silence, for each request."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network
        self.offer: dict[int, tuple[int, int]] = dict(OFFER)
        self.asked: list[RequestHeader] = []
        self.dialled_ms: list[int] = []
        self.lines: list[_Line] = []
        self.answer: Callable[[RequestHeader, Any], bytes | None] = self.politely
        self._listener: MemoryListener | None = None

    async def listen(self, host: str = "actor", port: int = 9092) -> None:
        self._listener = await self.network.host(host).listen("", port, self._accept)

    def leave(self) -> None:
        """As when the process dies: the port is closed, and all connections break."""
        if self._listener is not None:
            self._listener.close()
        for line in list(self.lines):
            line.connection.close()

    def politely(self, header: RequestHeader, request: Any) -> bytes | None:
        del request
        if header.api_key == 18:
            return self.introduce(header)
        return reply(header, ListGroupsResponse())

    def introduce(self, header: RequestHeader) -> bytes:
        first, last = self.offer[18]
        offers = [ApiVersion(key, *some) for key, some in self.offer.items()]
        if not first <= header.api_version <= last:
            refusal = encoder(ApiVersionsResponse, 0)(ApiVersionsResponse(error_code=35))
            return framed(encode_response_header(header.correlation_id, 18, 0) + refusal)
        return reply(header, ApiVersionsResponse(api_keys=offers))

    def _accept(self, connection: Connection) -> _Line:
        self.dialled_ms.append(int(asyncio.get_running_loop().time() * 1000))
        line = _Line(self, connection)
        self.lines.append(line)
        return line


class _Line:
    def __init__(self, actor: Actor, connection: Connection) -> None:
        self.actor = actor
        self.connection = connection
        self.frames = FrameReader(1 << 20)

    def receive_buffer(self) -> memoryview:
        return self.frames.buffer()

    def bytes_received(self, count: int) -> None:
        for frame in self.frames.received(count):
            header, position = decode_request_header(frame)
            self.actor.asked.append(header)
            request = None
            if header.api_key in API_BY_KEY and header.api_version in API_BY_KEY[header.api_key].versions:
                request, _ = decoder(API_BY_KEY[header.api_key].request, header.api_version)(frame, position)
            answer = self.actor.answer(header, request)
            if answer is not None:
                self.connection.send([answer])

    def output_drained(self) -> None:
        pass

    def connection_lost(self, reason: str | None) -> None:
        del reason
        self.actor.lines.remove(self)


def framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def reply(header: RequestHeader, message: Any) -> bytes:
    head = encode_response_header(header.correlation_id, header.api_key, header.api_version)
    return framed(head + encoder(type(message), header.api_version)(message))


class Scene:
    """ConnectionPool of one client, with an actor at place 1."""

    def __init__(self, limits: ConnectionSettings) -> None:
        self.network = MemoryNetwork(SeededEntropy())
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.actor = Actor(self.network)
        self._limits = limits
        self.peers = self.make_peers()
        self.peers.put(1, "actor", 9092)
        self.reply = reply

    def make_peers(self, handshake: Handshake | None = None) -> ConnectionPool:
        here = self.network.host("client")
        return ConnectionPool(here, self.clock, SeededEntropy(), self._limits, "tester", handshake)


@pytest.fixture(scope="session")
def play() -> Callable[..., None]:
    """Run a scenario; at its end nothing of the peers may be left."""

    def run(
        scenario: Callable[[Scene], Awaitable[None]],
        limits: ConnectionSettings | None = None,
        *,
        is_there: bool = True,
    ) -> None:
        async def main() -> None:
            scene = Scene(limits or ConnectionSettings())
            if is_there:
                await scene.actor.listen()
            await scenario(scene)
            await scene.peers.close()
            assert [one for one in scene.network.connections if one.host == "client"] == []
            assert [one for one in asyncio.all_tasks() if one is not asyncio.current_task()] == []

        run_virtually(main)

    return run
