"""The port for byte streams.

Callbacks, not coroutines: a broker handles hundreds of thousands of frames a second, and callbacks add no
cost to the event loop. A ``Receiver`` provides the buffer that bytes are received into, so that a large
frame is not copied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.ports.files import Parts


class Receiver(Protocol):
    """Callbacks of a connection. Called from the event loop, never after ``connection_lost``."""

    def receive_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        ...

    def bytes_received(self, count: int) -> None:
        """``count`` bytes were written to the start of the last buffer returned."""
        ...

    def output_drained(self) -> None:
        """All queued output has been passed to the operating system."""
        ...

    def connection_lost(self, reason: str | None) -> None:
        """The connection is closed; ``reason`` is None after an orderly close by either side."""
        ...


class Connection(Protocol):
    @property
    def peer(self) -> str:
        """Address and port of the peer, for display."""
        ...

    @property
    def peer_host(self) -> str: ...

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by ``send`` and not yet passed to the operating system."""
        ...

    def send(self, parts: Parts) -> None:
        """Queue parts in order; send what is possible without waiting. Parts must not change afterwards."""
        ...

    def pause(self) -> None:
        """Stop receiving until ``resume``."""
        ...

    def resume(self) -> None: ...

    def close(self, *, flush: bool = False) -> None:
        """Close the connection; with ``flush``, once queued output has been sent."""
        ...


Accept = Callable[[Connection], Receiver | None]
"""Returns the receiver of a new connection; None rejects it."""


class ListeningSocket(Protocol):
    @property
    def port(self) -> int: ...

    def pause(self) -> None:
        """Leave new connections to the system's queue until ``resume``."""
        ...

    def resume(self) -> None: ...

    def close(self) -> None:
        """Stop accepting. Accepted connections stay open."""
        ...


class UnknownHost(OSError):
    """Raised by ``dial`` for a host name that does not exist; not retriable."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"host {host!r} does not resolve: {reason}")
        self.reason = reason


class Network(Protocol):
    def listen(self, host: str, port: int, accept: Accept) -> Awaitable[ListeningSocket]: ...

    def dial(
        self, host: str, port: int, attach: Callable[[Connection], Receiver], timeout_ms: int
    ) -> Awaitable[Connection]:
        """Connect to a host. Raises UnknownHost, another OSError, or TimeoutError."""
        ...
