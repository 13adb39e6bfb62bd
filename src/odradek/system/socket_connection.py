"""A connection on a real socket: non-blocking, driven by the event loop's readiness callbacks.

Small parts are sent in one gathered write; large ranges of files through ``sendfile``, without copying. Parts
are sent in the order they were queued.

Sending an uncached range of a file would block the loop, and all connections, on the disk. So each chunk of
a range that is not recent is probed first; an uncached chunk is paged in by a thread while only this
connection's output waits. While a chunk is being sent, the kernel reads ahead.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from odradek.ports.files import Buffer, FileSlice, Part, Parts
from odradek.ports.network import Receiver

# Smaller responses are copied into one buffer and sent in one write: cheaper than a second system call.
JOIN_BYTES_MAX = 32 * 1024
# Limit of one sendfile call, so that no connection blocks the loop for long.
SENDFILE_CHUNK_BYTES = 4 * 1024 * 1024
# Chunk size of ranges that may have to be paged in.
CHUNK_BYTES = 1024 * 1024
# The kernel takes 1024 buffers in one gathered write; more than a few dozen gain nothing.
GATHER_MAX = 64

OffloadRead = Callable[[Callable[[], None]], Awaitable[None]]


class SocketConnection:
    """An accepted or dialled TCP connection.

    While ``_writing``, output waits for a callback: of the socket when it is writable (``_watching``), or
    of the thread that pages in the next chunk of a file (``_page_in_task``). ``_cached_bytes`` is how much
    of the first queued part is known to be in the page cache.
    """

    __slots__ = (
        "_cached_bytes",
        "_closed",
        "_closing",
        "_fd",
        "_loop",
        "_offload_read",
        "_page_in_task",
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
        self._cached_bytes = 0
        self._page_in_task: asyncio.Future[None] | None = None
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
            self._loop.add_reader(self._fd, self._on_readable)

    def send(self, parts: Parts) -> None:
        if self._closing or not parts:
            return
        if not self._writing:
            try:
                small = _join_if_small(parts)
            except OSError as error:
                self._end(reason_of(error))
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
        """Send a small response while nothing is queued: the common case."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._end(reason_of(error))
            return
        if sent < len(data):
            self._queue.append(memoryview(data)[sent:])
            self.queued_bytes = len(data) - sent
            self._wait_writable()

    def close(self, *, flush: bool = False) -> None:
        if flush and self._queue and not self._closed:
            self._closing = True
            self._stop_reading()
        else:
            self._end(None)

    def _on_readable(self) -> None:
        receiver = self._receiver
        assert receiver is not None
        try:
            count = self._socket.recv_into(receiver.receive_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(reason_of(error))
            return
        if count:
            receiver.bytes_received(count)
        else:
            self._end(None)

    def _flush(self) -> None:
        """Send as much as possible without waiting. A chunk known to be cached is not probed again."""
        queue = self._queue
        try:
            while queue:
                head, limit = queue[0], SENDFILE_CHUNK_BYTES
                if isinstance(head, FileSlice):
                    if not head.is_recent:
                        if not self._cached_bytes and not self._probe_cached(head):
                            self._page_in(head)
                            return
                        limit = self._cached_bytes
                    sent = self._send_file(head, limit)
                    self._cached_bytes = max(self._cached_bytes - sent, 0)
                else:
                    sent = self._send_buffers()
                if self._drop_sent(sent) and sent < limit:
                    self._wait_writable()
                    return
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
            return
        except OSError as error:
            self._end(reason_of(error))
            return
        if self._writing:
            self._writing = False
            self._stop_watching()
            if self._receiver is not None and not self._closing:
                self._receiver.output_drained()
        if self._closing:
            self._end(None)

    def _probe_cached(self, part: FileSlice) -> bool:
        """Probe the next chunk of the first part."""
        if part.starts_cached(CHUNK_BYTES):
            self._cached_bytes = min(len(part), CHUNK_BYTES)
        return self._cached_bytes > 0

    def _page_in(self, part: FileSlice) -> None:
        """Page in the next chunk on a thread, then continue sending."""
        self._stop_watching()
        self._writing = True
        # The thread holds the file, so that it stays open even if the log or this connection is closed.
        file, position, size_bytes = part.file, part.position, min(len(part), CHUNK_BYTES)
        self._page_in_task = asyncio.ensure_future(
            self._offload_read(lambda: file.page_in(position, size_bytes))
        )
        self._page_in_task.add_done_callback(self._on_paged_in)

    def _on_paged_in(self, page_in_task: asyncio.Future[None]) -> None:
        self._page_in_task = None
        if page_in_task.cancelled() or self._closed:
            return
        failure = page_in_task.exception()
        if failure is not None:
            self._end(reason_of(failure))
        else:
            self._cached_bytes = min(len(self._queue[0]), CHUNK_BYTES)
            self._flush()

    def _wait_writable(self) -> None:
        """Continue sending when the socket is writable again."""
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
                # A range of a file follows: let its first bytes share a packet with these.
                flags = socket.MSG_MORE
                break
            if len(gathered) == GATHER_MAX:
                break
            gathered.append(part)
        return self._socket.sendmsg(gathered, (), flags)

    def _send_file(self, part: FileSlice, limit: int) -> int:
        descriptor = part.file.fileno()
        if descriptor < 0:
            self._queue[0] = data = read_range(part)
            return self._socket.send(data)
        sent = os.sendfile(self._fd, descriptor, part.position, min(len(part), limit))
        if sent == 0:
            raise _short_range_error(part)
        return sent

    def _drop_sent(self, count: int) -> bool:
        """Remove sent bytes from the queue; return whether a part was sent only partially."""
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
        if self._page_in_task is not None:
            self._page_in_task.cancel()
        self._queue.clear()
        self.queued_bytes = 0
        self._socket.close()
        receiver, self._receiver = self._receiver, None  # break the reference cycle
        if receiver is not None:
            receiver.connection_lost(reason)


def _join_if_small(parts: Parts) -> bytes | None:
    """Join all parts if they are small and cached: copying costs less than a gathered write."""
    size = 0
    for part in parts:
        size += len(part)
    if size > JOIN_BYTES_MAX:
        return None
    buffers: list[Buffer] = []
    for part in parts:
        if not isinstance(part, FileSlice):
            buffers.append(part)
        else:
            data = part.read_cached()
            if data is None:
                return None
            buffers.append(_whole(part, data))
    return b"".join(buffers)


def read_range(part: FileSlice) -> bytes:
    """Read a whole range; raises if it is short, since a truncated frame would corrupt the stream."""
    return _whole(part, part.read())


def _whole(part: FileSlice, data: bytes) -> bytes:
    if len(data) != len(part):
        raise _short_range_error(part)
    return data


def _short_range_error(part: FileSlice) -> OSError:
    return OSError(errno.EIO, f"{part.file.path} is shorter than the range to send")


def reason_of(error: BaseException) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
