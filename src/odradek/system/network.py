"""Real sockets: listening and dialling. ``SocketConnection`` is what they give."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from odradek.ports.network import Accept, Connection, Receiver
from odradek.system.files import RealFileSystem
from odradek.system.host_names import addresses_of
from odradek.system.socket_connection import OffloadRead, SocketConnection

# Connections queued by the system until they are accepted. On overflow a packet is dropped and the client
# waits a second; a longer queue costs nothing.
BACKLOG_MIN = 1024
# After EMFILE and similar errors the listener pauses, instead of spinning on a ready socket.
ACCEPT_PAUSE_S = 0.1
# Limit per loop iteration, so that new connections do not starve existing ones.
ACCEPTS_PER_ITERATION = 64
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class SocketListener:
    """A listening socket that passes each new connection to ``accept``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        accept: Accept,
        offload_read: OffloadRead,
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._accept = accept
        self._offload_read = offload_read
        self.port: int = sock.getsockname()[1]
        self._closed = False
        self._paused = False
        loop.add_reader(sock.fileno(), self._on_acceptable)

    def pause(self) -> None:
        self._paused = True
        if not self._closed:
            self._loop.remove_reader(self._socket.fileno())

    def resume(self) -> None:
        self._paused = False
        self._resume_accepting()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_ITERATION):
            if self._paused:
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._pause_accepting()
                return
            self._handle_connection(sock, address)

    def _handle_connection(self, sock: socket.socket, address: tuple[str, int]) -> None:
        configure_socket(sock)
        connection = SocketConnection(self._loop, sock, address, self._offload_read)
        receiver = self._accept(connection)
        if receiver is None:
            connection.close()
        else:
            connection.attach(receiver)

    def _pause_accepting(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(ACCEPT_PAUSE_S, self._resume_accepting)

    def _resume_accepting(self) -> None:
        if not self._closed and not self._paused:
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)


class SocketNetwork:
    """The real network. Buffer sizes of -1 keep the system's defaults.

    ``offload_read`` is a file system's; without one, the network uses its own threads.
    """

    def __init__(
        self,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        backlog: int = BACKLOG_MIN,
        offload_read: OffloadRead | None = None,
    ) -> None:
        self._offload_read = offload_read or RealFileSystem().offload_read
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._backlog = max(backlog, BACKLOG_MIN)

    async def listen(self, host: str, port: int, accept: Accept) -> SocketListener:
        family, _, _, _, address = (
            await asyncio.get_running_loop().getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted sockets inherit these; set before listen so that the window scale matches.
            if self._send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            if self._receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            sock.bind(address)
            sock.listen(self._backlog)
        except OSError:
            sock.close()
            raise
        return SocketListener(asyncio.get_running_loop(), sock, accept, self._offload_read)

    async def dial(
        self, host: str, port: int, attach: Callable[[Connection], Receiver], timeout_ms: int
    ) -> SocketConnection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_ms / 1000):
            family, _, _, _, address = (await addresses_of(host, port))[0]
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                await loop.sock_connect(sock, address)
            except BaseException:
                sock.close()
                raise
        configure_socket(sock)
        connection = SocketConnection(loop, sock, (host, port), self._offload_read)
        connection.attach(attach(connection))
        return connection


def configure_socket(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
