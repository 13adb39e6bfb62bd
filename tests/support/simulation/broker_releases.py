"""API versions of Kafka releases, and a proxy that limits a broker to those of one release.

``ReleaseProxy`` is between clients and a broker in memory: it responds to ApiVersions as the release would,
rejects versions that the release does not support, and forwards the rest.
"""

from __future__ import annotations

import asyncio
from struct import Struct

from odradek.ports.network import Connection
from odradek.testing.network import MemoryHost, MemoryNetwork
from odradek.wire.frames import FrameReader
from odradek.wire.headers import decode_request_header
from odradek.wire.message_codecs import encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

API_VERSIONS = 18
_FRAME_BYTES_MAX = 1 << 26
_SIZE = Struct(">i")
_CORRELATION = Struct(">i")

Offer = dict[int, tuple[int, int]]


def _offer(text: str) -> Offer:
    """Parse ``0:0-3 1:0-5`` to {0: (0, 3), 1: (0, 5)}; a single number is a range of one version."""
    offer = {}
    for word in text.split():
        key, _, versions = word.partition(":")
        first, _, last = versions.partition("-")
        offer[int(key)] = (int(first), int(last or first))
    return offer


RELEASES: dict[str, Offer] = {
    "0.11": _offer(
        "0:0-3 1:0-5 2:0-2 3:0-4 4:0 5:0 6:0-3 7:1 8:0-3 9:0-3 10:0-1 11:0-2 12:0-1 13:0-1 14:0-1 15:0-1 "
        "16:0-1 17:0 18:0-1 19:0-2 20:0-1 21:0 22:0 23:0 24:0 25:0 26:0 27:0 28:0 29:0 30:0 31:0 32:0 33:0"
    ),
    "1.0": _offer(
        "0:0-5 1:0-6 2:0-2 3:0-5 4:0-1 5:0 6:0-4 7:0-1 8:0-3 9:0-3 10:0-1 11:0-2 12:0-1 13:0-1 14:0-1 "
        "15:0-1 16:0-1 17:0-1 18:0-1 19:0-2 20:0-1 21:0 22:0 23:0 24:0 25:0 26:0 27:0 28:0 29:0 30:0 31:0 "
        "32:0 33:0 34:0 35:0 36:0 37:0"
    ),
    "2.0": _offer(
        "0:0-6 1:0-8 2:0-3 3:0-6 4:0-1 5:0 6:0-4 7:0-1 8:0-4 9:0-4 10:0-2 11:0-3 12:0-2 13:0-2 14:0-2 "
        "15:0-2 16:0-2 17:0-1 18:0-2 19:0-3 20:0-2 21:0-1 22:0-1 23:0-1 24:0-1 25:0-1 26:0-1 27:0 28:0-1 "
        "29:0-1 30:0-1 31:0-1 32:0-2 33:0-1 34:0-1 35:0-1 36:0 37:0-1 38:0-1 39:0-1 40:0-1 41:0-1 42:0-1"
    ),
    "2.8": _offer(
        "0:0-9 1:0-12 2:0-6 3:0-11 4:0-5 5:0-3 6:0-7 7:0-3 8:0-8 9:0-7 10:0-3 11:0-7 12:0-4 13:0-4 14:0-5 "
        "15:0-5 16:0-4 17:0-1 18:0-3 19:0-7 20:0-6 21:0-2 22:0-4 23:0-4 24:0-3 25:0-3 26:0-3 27:0-1 28:0-3 "
        "29:0-2 30:0-2 31:0-2 32:0-4 33:0-2 34:0-2 35:0-2 36:0-2 37:0-3 38:0-2 39:0-2 40:0-2 41:0-2 42:0-2 "
        "43:0-2 44:0-1 45:0 46:0 47:0 48:0-1 49:0-1 50:0 51:0 56:0 57:0 60:0 61:0"
    ),
    "4.0": _offer(
        "0:0-12 1:4-17 2:1-10 3:0-13 8:2-9 9:1-9 10:0-6 11:2-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 "
        "18:0-4 19:2-7 20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1 28:0-5 29:1-3 30:1-3 31:1-3 "
        "32:1-4 33:0-2 34:1-2 35:1-4 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-2 43:0-2 44:0-1 45:0 "
        "46:0 47:0 48:0-1 49:0-1 50:0 51:0 55:0-2 57:0-2 60:0-2 61:0 65:0 66:0-1 68:0-1 69:0-1"
    ),
}
"""Min and max version of each API by release. 0.11 is the oldest release that the clients support."""

_NAMES_ITSELF_SINCE = 3
"""From 2.4 on, the response to an unsupported ApiVersions version lists the supported ones."""


class ReleaseProxy:
    """A broker of another release at its own address.

    ``spoken`` holds the version of each API that clients used last; ``refused`` the requests that the
    release does not support: empty if clients are correct.
    """

    def __init__(self, network: MemoryNetwork, host: str, offer: Offer, behind: tuple[str, int]) -> None:
        self.offer = offer
        self.spoken: dict[int, int] = {}
        self.refused: list[tuple[int, int]] = []
        self._here: MemoryHost = network.host(host)
        self._behind = behind

    async def listen(self, port: int) -> None:
        self._listener = await self._here.listen("", port, lambda connection: _Front(self, connection))

    def close(self) -> None:
        self._listener.close()

    async def dial(self, back: _Back) -> Connection:
        return await self._here.dial(*self._behind, lambda _: back, 10_000)

    def introduction(self, version: int, correlation_id: int) -> bytes:
        """Encode the ApiVersions response, in version 0 if this one is not supported."""
        known = self.offer[API_VERSIONS]
        message = ApiVersionsResponse(api_keys=[ApiVersion(key, *some) for key, some in self.offer.items()])
        if version > known[1]:
            named = [ApiVersion(API_VERSIONS, *known)] if known[1] >= _NAMES_ITSELF_SINCE else []
            message, version = ApiVersionsResponse(error_code=35, api_keys=named), 0
        return _framed(_CORRELATION.pack(correlation_id) + encoder(ApiVersionsResponse, version)(message))

    def understands(self, api_key: int, version: int) -> bool:
        first, last = self.offer.get(api_key, (1, 0))
        if first <= version <= last:
            self.spoken[api_key] = version
            return True
        self.refused.append((api_key, version))
        return False


class _Front:
    """The client side of the proxy."""

    def __init__(self, disguise: ReleaseProxy, connection: Connection) -> None:
        self._disguise = disguise
        self._connection = connection
        self._frames = FrameReader(_FRAME_BYTES_MAX)
        self._back = _Back(connection)
        self._early: list[bytes] = []
        self._broker: Connection | None = None
        self._dialling = asyncio.get_running_loop().create_task(self._reach())

    async def _reach(self) -> None:
        self._broker = await self._disguise.dial(self._back)
        for frame in self._early:
            self._broker.send([frame])

    def receive_buffer(self) -> memoryview:
        return self._frames.buffer()

    def bytes_received(self, count: int) -> None:
        for frame in self._frames.received(count):
            header, _ = decode_request_header(frame)
            if header.api_key == API_VERSIONS:
                answer = self._disguise.introduction(header.api_version, header.correlation_id)
                self._connection.send([answer])
            elif not self._disguise.understands(header.api_key, header.api_version):
                self._connection.close()
            elif self._broker is None:
                self._early.append(_framed(bytes(frame)))
            else:
                self._broker.send([_framed(bytes(frame))])

    def output_drained(self) -> None:
        pass

    def connection_lost(self, reason: str | None) -> None:
        del reason
        self._dialling.cancel()
        if self._broker is not None:
            self._broker.close()


class _Back:
    """The broker side of the proxy."""

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._scratch = memoryview(bytearray(1 << 16))

    def receive_buffer(self) -> memoryview:
        return self._scratch

    def bytes_received(self, count: int) -> None:
        self._client.send([bytes(self._scratch[:count])])

    def output_drained(self) -> None:
        pass

    def connection_lost(self, reason: str | None) -> None:
        del reason
        self._client.close(flush=True)


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
