"""Real sockets: non-blocking, driven by the event loop's readiness callbacks.

Small parts leave in one gathered write; large ranges of files leave through ``sendfile`` without passing
through this process. Order is kept: a part is never sent before those queued earlier.

A range of a file that is not in memory would make the loop, and all connections, wait for the disk. So what
is not known to be in memory is asked about before each piece; one that is not there is brought by a thread,
and only this connection's output waits for it. While a piece is being sent, the system reads on behind it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from odradek.ports.files import Buffer, FileSlice, Part, Parts
from odradek.ports.network import Accept, Connection, Receiver
from odradek.system.files import RealFileSystem
from odradek.system.host_names import addresses_of

# Up to this, answers are copied into one piece and leave in one write: cheaper than a second system call.
JOIN_BYTES_MAX = 32 * 1024
# One sendfile call moves at most this much, so that no connection holds the loop for long.
SENDFILE_CHUNK_BYTES = 4 * 1024 * 1024
# Of a range that may have to come from the disk, so much is brought and sent at a time.
PIECE_BYTES = 1024 * 1024
# The kernel takes 1024 buffers in one gathered write; more than a few dozen gain nothing.
GATHER_MAX = 64
# Connections the system holds until they are accepted. Where it has no room it drops a packet, and the client
# waits a second; a longer queue costs nothing.
BACKLOG_MIN = 1024
# After EMFILE and its like the listener rests, instead of spinning on a ready socket.
ACCEPT_REST_S = 0.1
# One turn of the loop accepts at most so many, so that a flood does not starve those already here.
ACCEPTS_PER_TURN = 64
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

OffloadRead = Callable[[Callable[[], None]], Awaitable[None]]


class SocketConnection:
    """One accepted or dialled TCP connection.

    While ``_writing``, output waits and a callback will go on with it: of the socket when it has room
    (``_watching``), or of the thread that brings the next piece of a file (``_bringing``). So much of the
    first part in the queue was found in memory: ``_at_hand_bytes``.
    """

    __slots__ = (
        "_at_hand_bytes",
        "_bringing",
        "_closed",
        "_closing",
        "_fd",
        "_loop",
        "_offload_read",
        "_paused",
        "_queue",
        "_receiver",
        "_socket",
        "_watching",
        "_writing",
        "peer",
        "peer_host",
        "queued_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        address: tuple[str, int],
        offload_read: OffloadRead,
    ) -> None:
        self._loop = loop
        self._offload_read = offload_read
        self._socket = sock
        self._fd = sock.fileno()
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._writing = False
        self._watching = False
        self._at_hand_bytes = 0
        self._bringing: asyncio.Future[None] | None = None
        self._paused = True
        self._closing = False
        self._closed = False
        self.queued_bytes = 0
        self.peer_host = address[0]
        self.peer = f"{address[0]}:{address[1]}"

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume()

    def pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self._loop.add_reader(self._fd, self._readable)

    def send(self, parts: Parts) -> None:
        if self._closing or not parts:
            return
        if not self._writing:
            try:
                small = _joined(parts)
            except OSError as unreadable:
                self._end(reason_of(unreadable))
                return
            if small is not None:
                self._send_small(small)
                return
        for part in parts:
            size = len(part)
            if size:
                self._queue.append(part)
                self.queued_bytes += size
        if not self._writing:
            self._flush()

    def _send_small(self, data: bytes) -> None:
        """Nothing waits and this fits into one write: most answers leave here."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as broken:
            self._end(reason_of(broken))
            return
        if sent < len(data):
            self._queue.append(memoryview(data)[sent:])
            self.queued_bytes = len(data) - sent
            self._await_room()

    def close(self, *, flush: bool = False) -> None:
        if flush and self._queue and not self._closed:
            self._closing = True
            self._stop_reading()
        else:
            self._end(None)

    def _readable(self) -> None:
        receiver = self._receiver
        assert receiver is not None
        try:
            count = self._socket.recv_into(receiver.receive_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as broken:
            self._end(reason_of(broken))
            return
        if count:
            receiver.bytes_received(count)
        else:
            self._end(None)

    def _flush(self) -> None:
        """Send what goes without waiting. A piece that was found or brought is not asked about again."""
        queue = self._queue
        try:
            while queue:
                head, limit = queue[0], SENDFILE_CHUNK_BYTES
                if isinstance(head, FileSlice):
                    if not head.is_recent:
                        if not self._at_hand_bytes and not self._find_at_hand(head):
                            self._bring(head)
                            return
                        limit = self._at_hand_bytes
                    sent = self._send_file(head, limit)
                    self._at_hand_bytes = max(self._at_hand_bytes - sent, 0)
                else:
                    sent = self._send_buffers()
                if self._drop_sent(sent) and sent < limit:
                    self._await_room()
                    return
        except (BlockingIOError, InterruptedError):
            self._await_room()
            return
        except OSError as broken:
            self._end(reason_of(broken))
            return
        if self._writing:
            self._writing = False
            self._stop_watching()
            if self._receiver is not None and not self._closing:
                self._receiver.output_drained()
        if self._closing:
            self._end(None)

    def _find_at_hand(self, part: FileSlice) -> bool:
        """Ask about the next piece of the first part."""
        if part.starts_cached(PIECE_BYTES):
            self._at_hand_bytes = min(len(part), PIECE_BYTES)
        return self._at_hand_bytes > 0

    def _bring(self, part: FileSlice) -> None:
        """The next piece is not in memory: go on when a thread has brought it."""
        self._stop_watching()
        self._writing = True
        # The thread holds the file, so that it stays open whatever becomes of the log or this connection.
        file, position, size_bytes = part.file, part.position, min(len(part), PIECE_BYTES)
        self._bringing = asyncio.ensure_future(self._offload_read(lambda: file.page_in(position, size_bytes)))
        self._bringing.add_done_callback(self._brought)

    def _brought(self, bringing: asyncio.Future[None]) -> None:
        self._bringing = None
        if bringing.cancelled() or self._closed:
            return
        failure = bringing.exception()
        if failure is not None:
            self._end(reason_of(failure))
        else:
            self._at_hand_bytes = min(len(self._queue[0]), PIECE_BYTES)
            self._flush()

    def _await_room(self) -> None:
        """The system's buffer is full: go on when it has taken some of it."""
        self._writing = True
        if not self._watching:
            self._watching = True
            self._loop.add_writer(self._fd, self._flush)

    def _stop_watching(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._fd)

    def _send_buffers(self) -> int:
        queue = self._queue
        if len(queue) == 1:
            return self._socket.send(queue[0])  # type: ignore[arg-type]
        gathered: list[Buffer] = []
        flags = 0
        for part in queue:
            if isinstance(part, FileSlice):
                # A range of a file follows at once: let its first bytes share a packet with these.
                flags = socket.MSG_MORE
                break
            if len(gathered) == GATHER_MAX:
                break
            gathered.append(part)
        return self._socket.sendmsg(gathered, (), flags)

    def _send_file(self, part: FileSlice, limit: int) -> int:
        descriptor = part.file.fileno()
        if descriptor < 0:
            self._queue[0] = data = whole_range(part)
            return self._socket.send(data)
        sent = os.sendfile(self._fd, descriptor, part.position, min(len(part), limit))
        if sent == 0:
            raise _too_short(part)
        return sent

    def _drop_sent(self, count: int) -> bool:
        """Take what was sent off the queue; say whether a part went only in part: there was no more room."""
        self.queued_bytes -= count
        queue = self._queue
        while count:
            part = queue[0]
            size = len(part)
            if count >= size:
                queue.popleft()
                count -= size
            elif isinstance(part, FileSlice):
                queue[0] = part.without_first(count)
                return True
            else:
                queue[0] = memoryview(part)[count:]
                return True
        return False

    def _stop_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def _end(self, reason: str | None) -> None:
        if self._closed:
            return
        self._closed = self._closing = True
        self._stop_reading()
        self._stop_watching()
        if self._bringing is not None:
            self._bringing.cancel()
        self._queue.clear()
        self.queued_bytes = 0
        self._socket.close()
        receiver, self._receiver = self._receiver, None  # the two would keep each other from being freed
        if receiver is not None:
            receiver.connection_lost(reason)


class SocketListener:
    """A listening socket that hands each new connection to ``accept``."""

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
        loop.add_reader(sock.fileno(), self._acceptable)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as broken:
                if broken.errno not in _OUT_OF_RESOURCES:
                    raise
                self._rest()
                return
            self._welcome(sock, address)

    def _welcome(self, sock: socket.socket, address: tuple[str, int]) -> None:
        tune(sock)
        connection = SocketConnection(self._loop, sock, address, self._offload_read)
        receiver = self._accept(connection)
        if receiver is None:
            connection.close()
        else:
            connection.attach(receiver)

    def _rest(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(ACCEPT_REST_S, self._wake)

    def _wake(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._acceptable)


class SocketNetwork:
    """The real network. ``send_buffer`` and ``receive_buffer`` of -1 leave the system's sizes.

    ``offload_read`` is a file system's; without one, threads of the network's own wait for the disk.
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
            # Accepted sockets inherit these; set before listen so that the window scale fits.
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
        tune(sock)
        connection = SocketConnection(loop, sock, (host, port), self._offload_read)
        connection.attach(attach(connection))
        return connection


def _joined(parts: Parts) -> bytes | None:
    """All parts as one piece, if that is small and at hand; copying it costs less than gathering it."""
    size = 0
    for part in parts:
        size += len(part)
    if size > JOIN_BYTES_MAX:
        return None
    pieces: list[Buffer] = []
    for part in parts:
        if not isinstance(part, FileSlice):
            pieces.append(part)
        elif part.is_recent or part.starts_cached(JOIN_BYTES_MAX):
            pieces.append(whole_range(part))
        else:
            return None
    return b"".join(pieces)


def whole_range(part: FileSlice) -> bytes:
    """All of a range, or an error: a frame that is shorter than its length says would garble all after it."""
    data = part.read()
    if len(data) != len(part):
        raise _too_short(part)
    return data


def _too_short(part: FileSlice) -> OSError:
    return OSError(errno.EIO, f"{part.file.path} ends before the range that was promised")


def tune(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def reason_of(broken: BaseException) -> str:
    return (isinstance(broken, OSError) and broken.strerror) or str(broken)
