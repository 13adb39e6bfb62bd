"""Dialled connections on the event loop's own transports: what clients use.

A client's loop often shares its process with a busy thread of the application. Each system call that lets
other threads run then costs up to a whole switch interval (5 ms) to come back from. uvloop's transports read
and write inside the loop's own calls, so that a request and its answer need two turns at the interpreter
instead of six: beside a busy thread this is eight times the number of requests (docs/performance.md).

Listening, and sending ranges of files without copying them, stays with ``SocketNetwork``; here a range of a
file is read when it is sent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

from odradek.ports.files import Buffer, FileSlice, Parts
from odradek.ports.network import Accept, Connection, ListeningSocket, Receiver
from odradek.system.host_names import Address, addresses_of
from odradek.system.network import JOIN_BYTES_MAX, SocketNetwork, reason_of, tune, whole_range


class TransportConnection(asyncio.BufferedProtocol):
    """One dialled connection. Tells its owner nothing any more once it was closed from this side."""

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
            pieces = [
                whole_range(part) if isinstance(part, FileSlice) else part for part in parts if len(part)
            ]
        except OSError as unreadable:
            self._end(reason_of(unreadable))
            return
        if pieces:
            self._write(pieces)

    def _write(self, pieces: list[Buffer]) -> None:
        assert self._transport is not None
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        elif sum(map(len, pieces)) <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)

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
        self._tell_lost(reason)

    def _tell_lost(self, reason: str | None) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.connection_lost(reason)

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no instances of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        # With a limit of nothing, being told to go on means that all has left.
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
        self._tell_lost(None if exc is None else reason_of(exc))


class TransportNetwork:
    """The real network as a client sees it. Buffer sizes of -1 leave the system's.

    A receive buffer is asked to be larger than the system makes it, and never smaller: a size once asked for
    is kept as it is, while the system's own grows with what arrives. Large answers that pass through a small
    one cost up to a third more.
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
        """Connect to the first address of the host that answers; each has its share of the time given."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_ms / 1000):
            addresses = await addresses_of(host, port)
            sock = await self._connected(loop, addresses, timeout_ms / 1000 / len(addresses))
            try:
                return await self._adopted(loop, sock, (host, port), attach)
            except BaseException:
                sock.close()
                raise

    async def _connected(
        self, loop: asyncio.AbstractEventLoop, addresses: Sequence[Address], share_s: float
    ) -> socket.socket:
        refused: OSError | None = None
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                self._prepare(sock)
                async with asyncio.timeout(share_s):
                    await loop.sock_connect(sock, address)
            except OSError as unreachable:
                sock.close()
                refused = refused or unreachable
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        assert refused is not None, "a name is resolved to one address at least"
        raise refused

    def _prepare(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if self._send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes > sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)

    async def _adopted(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        address: tuple[str, int],
        attach: Callable[[Connection], Receiver],
    ) -> TransportConnection:
        tune(sock)
        connection = TransportConnection(address)
        connection.attach(attach(connection))
        await loop.create_connection(lambda: connection, sock=sock)
        return connection
