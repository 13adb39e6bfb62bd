"""The port for byte streams.

Callbacks, not coroutines: a broker moves hundreds of thousands of frames a second, and a callback is what
an event loop gives for free. A ``Receiver`` lends the buffer that bytes are received into, so that a large
frame arrives straight where it stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.ports.files import Parts


class Receiver(Protocol):
    """What a connection tells its owner. Calls come from the event loop, never after ``connection_lost``."""

    def receive_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        ...

    def bytes_received(self, count: int) -> None:
        """``count`` bytes were put at the start of the last buffer lent."""
        ...

    def output_drained(self) -> None:
        """All that was queued has been handed to the operating system."""
        ...

    def connection_lost(self, reason: str | None) -> None:
        """The connection is gone; ``reason`` is None if this side closed it or the peer ended it in order."""
        ...


class Connection(Protocol):
    @property
    def peer(self) -> str:
        """Address and port of the other side, for people."""
        ...

    @property
    def peer_host(self) -> str: ...

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by ``send`` and not yet handed to the operating system."""
        ...

    def send(self, parts: Parts) -> None:
        """Queue parts in order and send as much as goes without waiting. The parts must not change after."""
        ...

    def pause(self) -> None:
        """Stop receiving until ``resume``."""
        ...

    def resume(self) -> None: ...

    def close(self, *, flush: bool = False) -> None:
        """End the connection; with ``flush``, once what is queued has been sent."""
        ...


Accept = Callable[[Connection], Receiver | None]
"""Given a new connection, its owner; None refuses it."""


class ListeningSocket(Protocol):
    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """Stop accepting. Connections already accepted stay."""
        ...


class UnknownHost(OSError):
    """Raised by ``dial`` for a host name that does not exist, which another attempt cannot change."""

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
