"""A network in memory: hosts, listening ports, connections that deliver bytes through the event loop.

Bytes of a connection arrive in order, each once. Delays (``delay_max_ms``) and the sizes of received chunks
(``splits``) are random, drawn from the given entropy. A sender can be ahead of its receiver by
``window_bytes``, as with socket buffers; the rest is queued at the sender.

Tests inject faults: ``hold`` and ``release`` (a stalled connection), ``mute`` (half open: sent bytes are
lost), ``reset``, and ``partition``, ``block`` and ``heal`` (a network partition between two hosts, in both
directions or in one).
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.ports.entropy import Entropy
from odradek.ports.files import FileSlice, Part, Parts
from odradek.ports.network import Accept, Connection, Receiver, UnknownHost

WINDOW_BYTES: Final = 256 * 1024
LOOPBACK: Final = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0"})
RESET: Final = os.strerror(errno.ECONNRESET)
_FIRST_FREE_PORT: Final = 50_000
_LABEL_CHARACTERS_MAX: Final = 63


class MemoryNetwork:
    """All hosts and the connections between them."""

    def __init__(
        self,
        entropy: Entropy,
        *,
        delay_max_ms: int = 0,
        splits: bool = False,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.delay_max_ms = delay_max_ms
        self.splits = splits
        self.window_bytes = window_bytes
        self.connections: dict[MemoryConnection, None] = {}
        """Open connections, oldest first: faults hit them in an order that a seed repeats."""
        self.unknown_hosts: set[str] = set()
        """Host names that do not resolve."""
        self._entropy = entropy
        self._listeners: dict[tuple[str, int], MemoryListener] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._last_port = _FIRST_FREE_PORT

    def host(self, name: str) -> MemoryHost:
        """Return the network port of a host."""
        return MemoryHost(self, name)

    # Faults.

    def partition(self, first: str, other: str) -> None:
        """Partition two hosts: nothing is delivered between them; sent bytes wait, as in TCP."""
        self.block(first, other)
        self.block(other, first)

    def block(self, sender: str, receiver: str) -> None:
        """Partition two hosts in one direction."""
        self._blocked.add((sender, receiver))

    def unblock(self, sender: str, receiver: str) -> None:
        """End a partition in one direction: bytes that waited are delivered."""
        self._blocked.discard((sender, receiver))
        for connection in list(self.connections):
            if (connection.host, connection.peer_host) == (sender, receiver):
                connection.resume_delivery()

    def heal(self) -> None:
        self._blocked.clear()
        for connection in list(self.connections):
            connection.resume_delivery()

    def reset_all(self, host: str) -> None:
        """Reset all connections of a host and close its listeners, as when its process dies."""
        for connection in [first for first in self.connections if first.host == host]:
            connection.reset()
        for address in [address for address in self._listeners if address[0] == host]:
            del self._listeners[address]

    # Used by hosts and connections.

    def is_blocked(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._blocked

    def draw_delay_s(self) -> float:
        return self._entropy.below(self.delay_max_ms + 1) / 1000 if self.delay_max_ms else 0.0

    def draw_piece(self, size_bytes: int) -> int:
        return 1 + self._entropy.below(size_bytes) if self.splits else size_bytes

    def free_port(self) -> int:
        self._last_port += 1
        return self._last_port

    def bind(self, listener: MemoryListener) -> None:
        address = (listener.host, listener.port)
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._listeners[address] = listener

    def unbind(self, listener: MemoryListener) -> None:
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    def listener_at(self, host: str, port: int) -> MemoryListener | None:
        return self._listeners.get((host, port))


class MemoryListener:
    def __init__(self, network: MemoryNetwork, host: str, port: int, accept: Accept) -> None:
        self.host = host
        self.port = port or network.free_port()
        self._network = network
        self._accept = accept
        self._context = contextvars.copy_context()
        self._paused = False
        self._queued: list[MemoryConnection] = []
        """Connections to be accepted after a pause."""
        network.bind(self)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        while self._queued and not self._paused:
            self.handle_connection(self._queued.pop(0))

    def close(self) -> None:
        self._network.unbind(self)
        for connection in self._queued:
            connection.close()
        self._queued.clear()

    def handle_connection(self, connection: MemoryConnection) -> None:
        """Pass a new connection to ``accept``, in the context of the listener."""
        if self._paused:
            self._queued.append(connection)
            return
        receiver = self._context.copy().run(self._accept, connection)
        if receiver is None:
            connection.close()
        else:
            connection.attach(receiver, self._context)


class MemoryHost:
    """The network port of one host."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self.name = name
        self._network = network

    async def listen(self, host: str, port: int, accept: Accept) -> MemoryListener:
        if host not in LOOPBACK and host != self.name:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        return MemoryListener(self._network, self.name, port, accept)

    async def dial(
        self, host: str, port: int, attach: Callable[[Connection], Receiver], timeout_ms: int
    ) -> MemoryConnection:
        target = self.name if host in LOOPBACK else host
        if host in self._network.unknown_hosts or not (host in LOOPBACK or _is_host_name(host)):
            raise UnknownHost(host, "Name or service not known")
        if self._network.is_blocked(self.name, target) or self._network.is_blocked(target, self.name):
            await asyncio.sleep(timeout_ms / 1000)
            raise TimeoutError
        await asyncio.sleep(self._network.draw_delay_s())
        listener = self._network.listener_at(target, port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        dialled = MemoryConnection(self._network, self.name, target, port)
        accepted = MemoryConnection(self._network, target, self.name, self._network.free_port())
        dialled.other, accepted.other = accepted, dialled
        dialled.attach(attach(dialled), contextvars.copy_context())
        listener.handle_connection(accepted)
        return dialled


class MemoryConnection:
    """One end of a connection. ``_arrived`` holds received bytes that are not read yet."""

    def __init__(self, network: MemoryNetwork, host: str, peer_host: str, peer_port: int) -> None:
        self.host = host
        self.peer_host = peer_host
        self.peer = f"{peer_host}:{peer_port}"
        self.queued_bytes = 0
        self.other: MemoryConnection | None = None
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._receiver: Receiver | None = None
        self._queue: deque[Part] = deque()
        self._arrived = bytearray()
        self._ending: str | None = None
        self._is_at_end = False
        self._is_reading = False
        self._is_paused = True
        self._is_blocked = False
        self._is_held = False
        self._is_muted = False
        self._is_closing = False
        self._is_closed = False
        network.connections[self] = None

    def attach(self, receiver: Receiver, context: contextvars.Context) -> None:
        self._receiver = receiver
        self._context = context
        self.resume()

    # The port.

    def send(self, parts: Parts) -> None:
        if self._is_closing:
            return
        other = self.other
        if not self._queue and not self._is_blocked and other is not None and not self._is_stopped:
            sizes = [len(part) for part in parts]
            if FileSlice not in map(type, parts) and (
                sum(sizes) <= self._network.window_bytes - len(other._arrived)
            ):
                # The usual case: all of it fits into the window at once.
                if any(sizes):
                    self._deliver_chunk(b"".join(parts), other)  # type: ignore[arg-type]
                return
        for part in parts:
            if len(part):
                self._queue.append(part)
                self.queued_bytes += len(part)
        self._deliver()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._read_soon()

    def close(self, *, flush: bool = False) -> None:
        # As with a socket, a partition only delays bytes that were sent before the close.
        is_delayed = self._network.is_blocked(self.host, self.peer_host)
        if (flush or is_delayed) and self._queue and not self._is_closed:
            self._is_closing = self._is_paused = True
        else:
            self._end(None)

    # Faults.

    def hold(self) -> None:
        """Delay everything this end sends until ``release``."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        self.resume_delivery()

    def mute(self) -> None:
        """Lose everything this end sends from now on, including its close."""
        self._is_muted = True

    def reset(self) -> None:
        """Reset the connection: both ends are closed, bytes in flight are lost."""
        other = self.other
        self._end(RESET)
        if other is not None:
            other._end(RESET)

    def resume_delivery(self) -> None:
        """Resume delivery after a fault has ended."""
        self._deliver()
        self._read_soon()
        if self.other is not None:
            self.other._read_soon()

    # Sending.

    @property
    def _is_stopped(self) -> bool:
        blocked = self._network._blocked
        return self._is_held or (bool(blocked) and (self.host, self.peer_host) in blocked)

    def _deliver(self) -> None:
        """Move queued parts to the peer's buffer while its window is open."""
        other = self.other
        if self._is_closed or other is None:
            return
        while self._queue and not self._is_stopped:
            room = self._network.window_bytes - len(other._arrived)
            if room <= 0:
                break
            try:
                data = _take(self._queue, room)
            except OSError as error:
                self._end(str(error))
                return
            self.queued_bytes -= len(data)
            self._deliver_chunk(data, other)
        if self._queue:
            self._is_blocked = True
        elif self._is_closing:
            self._end(None)
        elif self._is_blocked:
            self._is_blocked = False
            self._loop.call_soon(self._notify_drained, context=self._context)

    def _deliver_chunk(self, data: bytes, other: MemoryConnection) -> None:
        if not self._is_muted and not other._is_closed:
            other._arrived += data
            other._read_soon()

    def _notify_drained(self) -> None:
        if self._receiver is not None and not self._is_closing and not self._queue:
            self._receiver.output_drained()

    # Receiving.

    def _read_soon(self) -> None:
        """Schedule a read: one per loop iteration and at most one pending, so that bytes keep their order."""
        if self._is_reading or self._is_paused or self._is_closed:
            return
        if self._arrived or self._is_at_end:
            self._is_reading = True
            delay_s = self._network.draw_delay_s()
            if delay_s:
                self._loop.call_later(delay_s, self._read, context=self._context)
            else:
                self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._is_reading = False
        other = self.other
        if self._is_closed or self._is_paused or (other is not None and other._is_stopped):
            return
        if self._arrived:
            self._read_some()
            if other is not None and (other._queue or other._is_blocked or other._is_closing):
                other._deliver()
            if self._arrived or self._is_at_end:
                self._read_soon()
        elif self._is_at_end:
            self._end(self._ending)

    def _read_some(self) -> None:
        assert self._receiver is not None
        buffer = self._receiver.receive_buffer()
        assert len(buffer), "receive_buffer must have room for at least one byte"
        count = self._network.draw_piece(min(len(buffer), len(self._arrived)))
        buffer[:count] = self._arrived[:count]
        del self._arrived[:count]
        self._receiver.bytes_received(count)

    # Ending.

    def _end(self, reason: str | None) -> None:
        """Close this end. The peer reads the remaining bytes, then the end of the stream.

        As with sockets, closing with unread bytes resets the peer.
        """
        if self._is_closed:
            return
        self._is_closed = self._is_closing = self._is_paused = True
        self._queue.clear()
        self.queued_bytes = 0
        self._network.connections.pop(self, None)
        other = self.other
        if other is not None and not self._is_muted:
            other._is_at_end = True
            other._ending = RESET if self._arrived else None
            other._read_soon()
        if self._receiver is not None:
            self._receiver.connection_lost(reason)


def _is_host_name(name: str) -> bool:
    return all(0 < len(label) <= _LABEL_CHARACTERS_MAX for label in name.split("."))


def _take(queue: deque[Part], limit: int) -> bytes:
    """Take the next bytes of a queue, up to a limit; the rest of a part goes back to its head."""
    part = queue.popleft()
    size = len(part)
    if size > limit:
        if isinstance(part, FileSlice):
            queue.appendleft(part.without_first(limit))
            part = FileSlice(part.file, part.position, limit)
        else:
            view = memoryview(part)
            queue.appendleft(view[limit:])
            part = view[:limit]
    if not isinstance(part, FileSlice):
        return bytes(part)
    if not part.starts_cached(len(part)):
        part.file.page_in(part.position, len(part))  # a simulation has no threads for it
    data = part.read()
    if len(data) != len(part):
        raise OSError(errno.EIO, f"{part.file.path} is shorter than the range to send")
    return data
