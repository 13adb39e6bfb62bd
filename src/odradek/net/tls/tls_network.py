"""A network whose connections are encrypted by TLS, on top of any other network."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from odradek.net.tls.tls_connection import OffloadRead, TlsConnection
from odradek.ports.network import Accept, Connection, ListeningSocket, Network, Receiver
from odradek.security.tls.tls_stream import TlsStream

HANDSHAKE_TIMEOUT_MS: Final = 10_000
"""Default limit of a handshake on accepted connections."""
RECEIVE_BYTES: Final = 128 * 1024
"""Size of the buffer for ciphertext, which all connections of a network share."""


class ContextSource(Protocol):
    """The holder of a TLS context that may be replaced; see ``TlsContextSource``."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        ...


class TlsNetwork:
    """TLS on the connections of a network: ``server`` for accepted ones, ``client`` for dialled ones."""

    def __init__(
        self,
        network: Network,
        *,
        server: ContextSource | None = None,
        client: ContextSource | None = None,
        handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS,
        offload_read: OffloadRead | None = None,
    ) -> None:
        """``offload_read`` reads uncached ranges of files on a thread; without it, they are read directly."""
        self._network = network
        self._server = server
        self._client = client
        self._handshake_timeout_ms = handshake_timeout_ms
        self._offload_read = offload_read
        self._scratch = memoryview(bytearray(RECEIVE_BYTES))

    async def listen(self, host: str, port: int, accept: Accept) -> ListeningSocket:
        """Accept TLS connections. ``accept`` gets each at once; its bytes follow the handshake."""
        source = self._server
        if source is None:
            raise ValueError("a TLS network must have a context for servers to listen, got none")

        def accept_tls(raw: Connection) -> Receiver | None:
            stream = TlsStream(source.context, server_side=True)
            connection = TlsConnection(
                raw,
                stream,
                self._scratch,
                handshake_timeout_ms=self._handshake_timeout_ms,
                offload_read=self._offload_read,
            )
            receiver = accept(connection)
            if receiver is None:
                connection.discard()
                return None
            connection.attach(receiver)
            return connection

        return await self._network.listen(host, port, accept_tls)

    async def dial(
        self, host: str, port: int, attach: Callable[[Connection], Receiver], timeout_ms: int
    ) -> TlsConnection:
        """Connect and complete the handshake; ``attach`` is called then.

        Raises TlsHandshakeFailed if a side does not accept the other, UnknownHost, another OSError, or
        TimeoutError.
        """
        if self._client is None:
            raise ValueError("a TLS network must have a context for clients to dial, got none")
        stream = TlsStream(self._client.context, server_side=False, host=host)
        dialled: list[TlsConnection] = []

        def attach_tls(raw: Connection) -> Receiver:
            dialled.append(
                TlsConnection(
                    raw,
                    stream,
                    self._scratch,
                    handshake_timeout_ms=timeout_ms,
                    offload_read=self._offload_read,
                )
            )
            return dialled[0]

        async with asyncio.timeout(timeout_ms / 1000):
            try:
                await self._network.dial(host, port, attach_tls, timeout_ms)
                connection = dialled[0]
                connection.start()
                await connection.handshake()
            except BaseException:
                for connection in dialled:
                    connection.close()
                raise
        if connection.is_closed:  # while the task that dials waited for its turn
            raise ConnectionError("the connection was closed after the TLS handshake")
        connection.attach(attach(connection))
        return connection
