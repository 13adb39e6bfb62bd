"""A scripted broker on a network port: it answers requests from a table, and records them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from odradek.ports.network import Connection, ListeningSocket, Network
from odradek.wire.apis import API_BY_KEY
from odradek.wire.message_codecs import decoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.server_connection import Request, ServerConnection

_API_VERSIONS: Final = 18

Respond = Callable[[Any], Any]
"""Returns the response to a decoded request, or None for no response."""


class ReceivedRequest(NamedTuple):
    client_id: str | None
    api_key: int
    version: int
    message: Any


class ScriptedBroker:
    """Answers the APIs in ``responses``, in the versions of ``offered`` or all. Records the requests."""

    def __init__(self, network: Network) -> None:
        self.responses: dict[int, Respond] = {}
        self.offered: dict[int, range] = {}
        self.received: list[ReceivedRequest] = []
        self.connections: set[_ScriptedConnection] = set()
        self._network = network
        self._socket: ListeningSocket | None = None

    async def listen(self, host: str, port: int = 0) -> int:
        """Accept connections; return the port."""
        self._socket = await self._network.listen(host, port, self._accept)
        return self._socket.port

    def requests_of(self, api_key: int) -> list[Any]:
        """Return the received requests of an API."""
        return [request.message for request in self.received if request.api_key == api_key]

    def drop_connections(self) -> None:
        for scripted_connection in list(self.connections):
            scripted_connection.connection.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self.drop_connections()

    def _accept(self, connection: Connection) -> _ScriptedConnection:
        scripted_connection = _ScriptedConnection(self, connection)
        self.connections.add(scripted_connection)
        return scripted_connection

    def respond(self, request: Request) -> Any:
        if request.api_key == _API_VERSIONS:
            offered = {key: API_BY_KEY[key].versions for key in self.responses} | self.offered
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(_API_VERSIONS, 0, 3),
                    *(ApiVersion(key, versions[0], versions[-1]) for key, versions in offered.items()),
                ]
            )
        decode = decoder(API_BY_KEY[request.api_key].request, request.api_version)
        message, _ = decode(request.frame, request.body_position)
        self.received.append(
            ReceivedRequest(request.client_id, request.api_key, request.api_version, message)
        )
        return self.responses[request.api_key](message)


class _ScriptedConnection:
    def __init__(self, broker: ScriptedBroker, connection: Connection) -> None:
        self.connection = connection
        self._broker = broker
        self._wire = ServerConnection(1 << 20)

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        for request in self._wire.received(count):
            response = self._broker.respond(request)
            if response is not None:
                cls: Any = type(response)
                body = parts_encoder(cls, request.api_version)(response)
                self.connection.send(self._wire.respond(request, body))

    def output_drained(self) -> None:
        """Do nothing."""

    def connection_lost(self, reason: str | None) -> None:
        self._broker.connections.discard(self)
