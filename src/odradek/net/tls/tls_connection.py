"""A connection that encrypts another one: receiver of the raw connection, and connection of its own receiver.

Works on all kinds of connections, in memory too. Ranges of files are read in chunks and encrypted here, since
only a kernel could encrypt what ``sendfile`` sends: kernel TLS needs Python 3.12 (``ssl.OP_ENABLE_KTLS``) and
an ``SSLSocket`` instead of a stream in memory. Its place would be ``TlsNetwork.listen``, beside this class.

Encrypting stops while the raw connection has output queued, so at most a few chunks are in memory as
ciphertext. The chunks of an uncached range are read by a thread while only this connection's output waits.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.ports.files import Buffer, FileSlice, Part, Parts
from odradek.ports.network import Connection, Receiver
from odradek.security.tls.tls_error import TlsError, TlsHandshakeFailed
from odradek.security.tls.tls_stream import TlsStream

CHUNK_BYTES: Final = 128 * 1024
"""Plaintext that is read and encrypted at a time: eight records."""
QUEUED_BYTES_MAX: Final = 256 * 1024
"""Ciphertext queued at the raw connection before encrypting stops."""
TURN_BYTES_MAX: Final = 1024 * 1024
"""Plaintext that is encrypted before other connections get their turn: about a millisecond."""
CONTROL_BYTES_MAX: Final = 1024 * 1024
"""Ciphertext queued while the peer asks for answers of the TLS layer and reads none."""
_ENDED: Final = "the peer closed the connection; its listener may not use TLS, or have too many connections"
_TRUNCATED: Final = "closed by the peer without a TLS close_notify"

OffloadRead = Callable[[Callable[[], bytes]], Awaitable[bytes]]


class TlsConnection:
    """One side of a TLS connection.

    Output is delayed (``_is_delayed``) while it waits for the handshake, the raw connection, a thread
    (``_read_task``) or its turn; then the receiver is notified when all of it was sent. A dialled connection
    is paused until its receiver is attached.
    """

    __slots__ = (
        "_deliver_handle",
        "_handshake",
        "_is_closed",
        "_is_closing",
        "_is_delayed",
        "_is_delivering",
        "_is_paused",
        "_is_raw_paused",
        "_is_refused",
        "_loop",
        "_offload_read",
        "_plaintext_bytes",
        "_queue",
        "_raw",
        "_read_task",
        "_reason",
        "_receiver",
        "_scratch",
        "_stream",
        "_timeout_handle",
        "_turn_handle",
        "failure",
        "peer_principal_name",
    )

    def __init__(
        self,
        raw: Connection,
        stream: TlsStream,
        scratch: memoryview,
        *,
        handshake_timeout_ms: int,
        offload_read: OffloadRead | None = None,
    ) -> None:
        """``scratch`` receives ciphertext; connections of one event loop may share it."""
        self._raw = raw
        self._stream = stream
        self._scratch = scratch
        self._offload_read = offload_read
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._plaintext_bytes = 0
        self._is_delayed = False
        self._is_paused = True
        self._is_raw_paused = False
        self._is_refused = False
        self._is_delivering = False
        self._is_closing = False
        self._is_closed = False
        self._reason: str | None = None
        self._read_task: asyncio.Future[bytes] | None = None
        self._deliver_handle: asyncio.Handle | None = None
        self._turn_handle: asyncio.Handle | None = None
        self._handshake: asyncio.Future[None] | None = None
        self.failure: TlsError | None = None
        """The error that ended the connection; a TlsHandshakeFailed if a side was not accepted."""
        self.peer_principal_name: str | None = None
        """Distinguished name in the peer's certificate, once the handshake is complete; None without one."""
        self._timeout_handle: asyncio.TimerHandle | None = self._loop.call_later(
            handshake_timeout_ms / 1000, self._on_handshake_timeout, handshake_timeout_ms
        )

    # The port.

    @property
    def peer(self) -> str:
        return self._raw.peer

    @property
    def peer_host(self) -> str:
        return self._raw.peer_host

    @property
    def queued_bytes(self) -> int:
        return self._plaintext_bytes + self._raw.queued_bytes

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def version(self) -> str:
        """The TLS version, such as TLSv1.3, once the handshake is complete."""
        return self._stream.version

    @property
    def cipher_suite(self) -> str:
        return self._stream.cipher_suite

    def attach(self, receiver: Receiver) -> None:
        """Set the receiver, and start to deliver to it."""
        self._receiver = receiver
        self.resume()

    def start(self) -> None:
        """Send the first bytes of the handshake; for a client, once the raw connection is established."""
        self._send_output()

    async def handshake(self) -> None:
        """Wait until the handshake is complete; raises TlsError, another OSError, or TimeoutError."""
        self._handshake = self._loop.create_future()
        self._complete_handshake_future()
        await self._handshake

    def send(self, parts: Parts) -> None:
        if self._is_closing or self._is_closed:
            return
        for part in parts:
            size = len(part)
            if size:
                self._queue.append(part)
                self._plaintext_bytes += size
        if not self._stream.is_complete:
            self._is_delayed = self._is_delayed or bool(self._queue)
        elif not self._is_delayed:
            self._encrypt_queue()

    def pause(self) -> None:
        self._is_paused = True
        if self._stream.is_complete:
            self._pause_raw()

    def resume(self) -> None:
        if not self._is_paused or self._is_closing or self._is_closed:
            return
        self._is_paused = False
        if self._stream.has_unread and self._deliver_handle is None:
            self._deliver_handle = self._loop.call_soon(self._deliver_unread)
        self._resume_raw()

    def close(self, *, flush: bool = False) -> None:
        if self._is_closed or (flush and self._is_closing):
            return
        if flush and (self._stream.is_complete or self._queue):
            self._is_closing = True
            if self._stream.is_complete:
                self._pause_raw()
                if not self._queue:
                    self._close_gracefully()
            return
        # A paused connection may leave bytes unread: the peer must see a reset then, not an orderly end.
        if not self.queued_bytes and not self._is_paused:
            self._announce_end()
        self._end(None)

    def discard(self) -> None:
        """Forget a connection that was rejected; the network closes the raw one."""
        self._is_closed = self._is_closing = True
        self._cancel_timeout()

    def refuse(self) -> None:
        """Read nothing, so that a connection that is closed later costs no handshake."""
        self._is_refused = True

    # Callbacks of the raw connection.

    def receive_buffer(self) -> memoryview:
        return self._scratch

    def bytes_received(self, count: int) -> None:
        if self._is_closed:
            return
        if self._is_refused:
            self._pause_raw()
            return
        was_complete = self._stream.is_complete
        try:
            self._stream.receive(self._scratch[:count])
            self._send_output()
            if not was_complete and self._stream.is_complete:
                self._on_handshake_complete()
        except TlsError as error:
            self._fail(error)
            return
        self._deliver()

    def output_drained(self) -> None:
        if self._is_closed or self._read_task is not None or not self._is_delayed:
            return
        self._encrypt_queue()

    def connection_lost(self, reason: str | None) -> None:
        if self._is_closed:
            return
        if not self._stream.is_complete and not self._is_closing:
            # No verdict on this side: a busy peer closes connections too.
            self.failure = TlsError(_ENDED if reason is None else f"{_ENDED}: {reason}")
            self._reason = _handshake_text(self.failure)
        elif reason is None and not self._is_closing:
            reason = _TRUNCATED
        self._on_lost(reason if self._reason is None else self._reason)

    # The handshake.

    def _on_handshake_complete(self) -> None:
        self._cancel_timeout()
        self.peer_principal_name = self._stream.peer_name()
        self._complete_handshake_future()
        if self._is_paused or self._is_closing:
            self._pause_raw()
        if self._is_delayed:
            self._encrypt_queue()

    def _complete_handshake_future(self) -> None:
        future = self._handshake
        if future is None or future.done():
            return
        if self._is_closed:
            kind = ConnectionError if self.failure is None else type(self.failure)
            future.set_exception(kind(self._reason or "the connection was closed"))
        elif self._stream.is_complete:
            future.set_result(None)

    def _on_handshake_timeout(self, timeout_ms: int) -> None:
        self._timeout_handle = None
        self._fail(TlsError(f"it was not complete after {timeout_ms} ms"))

    def _cancel_timeout(self) -> None:
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
            self._timeout_handle = None

    # Receiving.

    def _deliver_unread(self) -> None:
        """Deliver what was received before a pause."""
        self._deliver_handle = None
        if not self._is_closed:
            self._deliver()

    def _deliver(self) -> None:
        """Pass decrypted bytes to the receiver until none are left, or it pauses or closes the connection."""
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            self._deliver_until_paused()
        except TlsError as error:
            self._fail(error)
        finally:
            self._is_delivering = False

    def _deliver_until_paused(self) -> None:
        stream, receiver = self._stream, self._receiver
        while receiver is not None and self._can_deliver and stream.has_unread:
            count = stream.read_into(receiver.receive_buffer())
            self._send_output()
            if self._is_closed:
                return
            if count:
                receiver.bytes_received(count)
            elif stream.is_peer_closed:
                self._announce_end()
                self._end(None)
            else:
                return

    @property
    def _can_deliver(self) -> bool:
        return not (self._is_paused or self._is_closing or self._is_closed)

    def _pause_raw(self) -> None:
        if not self._is_raw_paused:
            self._is_raw_paused = True
            self._raw.pause()

    def _resume_raw(self) -> None:
        if self._is_raw_paused:
            self._is_raw_paused = False
            self._raw.resume()

    # Sending.

    def _send_output(self) -> None:
        """Send bytes of the TLS layer itself."""
        output = self._stream.take_output()
        if not output:
            return
        if self._raw.queued_bytes > CONTROL_BYTES_MAX:
            raise TlsError("the peer does not read the answers that it asks for")
        self._raw.send([output])

    def _encrypt_queue(self) -> None:
        """Encrypt and send queued parts, as much as the raw connection takes in one turn."""
        turn_bytes = 0
        try:
            while self._queue:
                if self._raw.queued_bytes >= QUEUED_BYTES_MAX:
                    self._is_delayed = True  # the raw connection will report that its output is drained
                    return
                if turn_bytes >= TURN_BYTES_MAX:
                    self._wait_for_turn()
                    return
                chunk = self._take_chunk()
                if chunk is None:
                    return
                turn_bytes += len(chunk)
                self._encrypt(chunk)
                if self._is_closed:
                    return
        except TlsError as error:
            self._fail(error)
            return
        except (OSError, ValueError) as error:
            self._end((isinstance(error, OSError) and error.strerror) or str(error))
            return
        self._on_queue_empty()

    def _encrypt(self, chunk: Buffer) -> None:
        self._stream.write(chunk)
        self._plaintext_bytes -= len(chunk)
        self._raw.send([self._stream.take_output()])

    def _on_queue_empty(self) -> None:
        if self._is_closing:
            self._close_gracefully()
        elif self._raw.queued_bytes:
            self._is_delayed = True
        elif self._is_delayed:
            self._is_delayed = False
            if self._receiver is not None:
                self._receiver.output_drained()

    def _take_chunk(self) -> Buffer | None:
        """Take the next bytes from the queue; None if a thread reads them."""
        head = self._queue[0]
        if isinstance(head, FileSlice):
            return self._take_range(head)
        if len(head) >= CHUNK_BYTES:
            return self._take_view(head)
        # Small parts share records: one part alone may be a few bytes.
        parts: list[Buffer] = []
        size = 0
        while self._queue and size < CHUNK_BYTES:
            part = self._queue[0]
            size += len(part)
            if isinstance(part, FileSlice):
                data = part.read_cached() if size <= CHUNK_BYTES else None
                if data is None:
                    break
                part = _whole(part, data)
            elif size > CHUNK_BYTES:
                break
            parts.append(part)
            self._queue.popleft()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take_view(self, part: Buffer) -> Buffer:
        view = memoryview(part)
        if len(view) > CHUNK_BYTES:
            self._queue[0] = view[CHUNK_BYTES:]
            return view[:CHUNK_BYTES]
        self._queue.popleft()
        return view

    def _take_range(self, part: FileSlice) -> bytes | None:
        chunk = _first_chunk(part)
        if self._offload_read is None or chunk.starts_cached(len(chunk)):
            self._drop_first(part, len(chunk))
            return _whole(chunk, chunk.read())
        self._is_delayed = True
        # The thread holds the file, so that it stays open even if the log or this connection is closed.
        self._read_task = asyncio.ensure_future(self._offload_read(lambda: _page_in(chunk)))
        self._read_task.add_done_callback(self._on_range_read)
        return None

    def _on_range_read(self, task: asyncio.Future[bytes]) -> None:
        self._read_task = None
        if task.cancelled() or self._is_closed:
            return
        failure = task.exception()
        if failure is not None:
            self._end((isinstance(failure, OSError) and failure.strerror) or str(failure))
            return
        head = self._queue[0]
        assert isinstance(head, FileSlice)
        chunk = task.result()
        self._drop_first(head, len(chunk))
        try:
            self._encrypt(chunk)
        except TlsError as error:
            self._fail(error)
            return
        if not self._is_closed:
            self._encrypt_queue()

    def _drop_first(self, part: FileSlice, count: int) -> None:
        if count < len(part):
            self._queue[0] = part.without_first(count)
        else:
            self._queue.popleft()

    def _wait_for_turn(self) -> None:
        self._is_delayed = True
        if self._turn_handle is None:
            self._turn_handle = self._loop.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._turn_handle = None
        if not self._is_closed and self._read_task is None:
            self._encrypt_queue()

    # Ending.

    def _announce_end(self) -> None:
        self._stream.close()
        output = self._stream.take_output()
        if output:
            self._raw.send([output])

    def _close_gracefully(self) -> None:
        """Close once the raw connection has sent everything, which ends with the announcement of the end."""
        self._announce_end()
        if not self._is_closed:
            self._raw.close(flush=True)

    def _fail(self, error: TlsError) -> None:
        """Close after an error of the TLS layer; the peer gets an alert if it reads."""
        if self._is_closed:
            return
        self.failure = type(error)(str(error))  # without a traceback, which would refer back to this object
        is_handshake = isinstance(error, TlsHandshakeFailed) or not self._stream.is_complete
        self._reason = _handshake_text(error) if is_handshake else f"TLS error: {error}"
        alert = self._stream.take_output()
        if alert and not self._raw.queued_bytes:
            self._raw.send([alert])
        self._end(self._reason)

    def _end(self, reason: str | None) -> None:
        if self._is_closed:
            return
        self._reason, self._is_closing = reason, True
        self._raw.close()
        if not self._is_closed:
            self._on_lost(reason)  # the raw connection had no receiver yet

    def _on_lost(self, reason: str | None) -> None:
        self._is_closed = self._is_closing = True
        self._reason = reason
        self._cancel_timeout()
        if self._read_task is not None:
            self._read_task.cancel()
        for handle in (self._deliver_handle, self._turn_handle):
            if handle is not None:
                handle.cancel()
        self._queue.clear()
        self._plaintext_bytes = 0
        self._complete_handshake_future()
        receiver, self._receiver = self._receiver, None  # break the reference cycle
        if receiver is not None:
            receiver.connection_lost(reason)


def _handshake_text(error: TlsError) -> str:
    return f"TLS handshake failed: {error}"


def _first_chunk(part: FileSlice) -> FileSlice:
    if len(part) <= CHUNK_BYTES:
        return part
    return FileSlice(part.file, part.position, CHUNK_BYTES, part.is_recent)


def _page_in(part: FileSlice) -> bytes:
    """Read a range on a thread; the next chunks are read ahead meanwhile."""
    part.file.page_in(part.position, len(part))
    return _whole(part, part.read())


def _whole(part: FileSlice, data: bytes) -> bytes:
    """Check that a range is complete, since a truncated frame would corrupt the stream."""
    if len(data) != len(part):
        raise OSError(errno.EIO, f"{part.file.path} is shorter than the range to send")
    return data
