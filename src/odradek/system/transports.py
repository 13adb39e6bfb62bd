"""Dialled connections on the event loop's transports, for clients.

A client's event loop often shares its process with a busy application thread. Each system call that
releases the GIL then takes up to a switch interval (5 ms) to return. uvloop's transports read and write
inside the loop's own calls, so that a request and its response acquire the GIL twice instead of six times:
beside a busy thread this gives eight times the request rate (docs/performance.md).

Listening, and sending ranges of files without copying, is left to ``SocketNetwork``; here a range of a file
is read when it is sent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

from odradek.ports.files import Buffer, FileSlice, Parts
from odradek.ports.network import Accept, Connection, ListeningSocket, Receiver
from odradek.system.host_names import Address, addresses_of
from odradek.system.network import SocketNetwork, configure_socket
from odradek.system.socket_connection import JOIN_BYTES_MAX, read_range, reason_of


class TransportConnection(asyncio.BufferedProtocol):
    """A dialled connection. Makes no callbacks after it is closed by this side."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.peer_host = address[0]
        self.peer = f"{address[0]}:{address[1]}"
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._paused = False
        self._closing = False

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver

    @property
    def queued_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, parts: Parts) -> None:
        if self._closing or self._transport is None:
            return
        try:
            buffers = [
                read_range(part) if isinstance(part, FileSlice) else part for part in parts if len(part)
            ]
        except OSError as error:
            self._end(reason_of(error))
            return
        if buffers:
            self._write(buffers)

    def _write(self, buffers: list[Buffer]) -> None:
        assert self._transport is not None
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        elif sum(map(len, buffers)) <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(buffers))
        else:
            self._transport.writelines(buffers)

    def pause(self) -> None:
        if not self._paused and not self._closing and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self._closing and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def close(self, *, flush: bool = False) -> None:
        if flush and self.queued_bytes and not self._closing:
            assert self._transport is not None
            self._closing = True
            self._transport.close()
        elif flush and self._closing and self._receiver is not None:
            return
        else:
            self._end(None)

    def _end(self, reason: str | None) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort() if self.queued_bytes else self._transport.close()
        self._notify_lost(reason)

    def _notify_lost(self, reason: str | None) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.connection_lost(reason)

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not instances of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        # With a high-water mark of 0, resume_writing means that everything was sent.
        self._transport.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._receiver is None:
            return memoryview(bytearray(1))
        return self._receiver.receive_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._receiver is not None and not self._closing:
            self._receiver.bytes_received(nbytes)

    def resume_writing(self) -> None:
        if self._receiver is not None and not self._closing:
            self._receiver.output_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._notify_lost(None if exc is None else reason_of(exc))


class TransportNetwork:
    """The real network for clients. Buffer sizes of -1 keep the system's defaults.

    A receive buffer is only enlarged: an explicit size is fixed, while the system's default grows with the
    traffic. Large responses through a small buffer cost up to a third more.
    """

    def __init__(self, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes

    async def listen(self, host: str, port: int, accept: Accept) -> ListeningSocket:
        return await SocketNetwork(self._send_buffer_bytes, self._receive_buffer_bytes).listen(
            host, port, accept
        )

    async def dial(
        self, host: str, port: int, attach: Callable[[Connection], Receiver], timeout_ms: int
    ) -> TransportConnection:
        """Connect to the first reachable address of the host; each gets a share of the timeout."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_ms / 1000):
            addresses = await addresses_of(host, port)
            sock = await self._connect(loop, addresses, timeout_ms / 1000 / len(addresses))
            try:
                return await self._create_connection(loop, sock, (host, port), attach)
            except BaseException:
                sock.close()
                raise

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, addresses: Sequence[Address], timeout_s: float
    ) -> socket.socket:
        first_error: OSError | None = None
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                self._configure_buffers(sock)
                async with asyncio.timeout(timeout_s):
                    await loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                first_error = first_error or error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        assert first_error is not None, "a resolved name has at least one address"
        raise first_error

    def _configure_buffers(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if self._send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes > sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)

    async def _create_connection(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        address: tuple[str, int],
        attach: Callable[[Connection], Receiver],
    ) -> TransportConnection:
        configure_socket(sock)
        connection = TransportConnection(address)
        connection.attach(attach(connection))
        await loop.create_connection(lambda: connection, sock=sock)
        return connection
