"""Memory of requests, from their first byte to their answer, over all connections.

The bound is ``queued.max.request.bytes``, or ``BYTES_MAX_DEFAULT`` where that sets none. At the bound,
sessions that hold more than a small share stop reading until some requests are answered; the others, which
send small requests, go on. At twice the bound all stop.

Requests that are never completed would fill the memory for good. So one session at a time may read on at the
bound, the first that stopped: it either completes its request or, after ``FAVOUR_MS_MAX``, is closed, and the
next one follows.

Invariant: ``used`` is the sum of the bytes received of all requests that are not answered yet. It exceeds
twice the bound by at most one request and one read of each connection.
"""

from __future__ import annotations

from typing import Final, Protocol

from odradek.config.types import MIB

BYTES_MAX_DEFAULT: Final = 512 * MIB
"""Five requests of the largest default size, or some hundred of the usual largest, at once."""
SHARE_BYTES: Final = 256 * 1024
FAVOUR_MS_MAX: Final = 30_000


class Reader(Protocol):
    """A session, as the memory sees it."""

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that were received and not answered."""
        ...

    @property
    def has_partial_request(self) -> bool: ...

    def read_on(self) -> None:
        """Ask again whether reading may go on."""
        ...

    def end(self, reason: str) -> None: ...


def bound_of(queued_bytes_max: int, request_bytes_max: int) -> int:
    """The bound for these settings. It has room for the largest request."""
    return max(queued_bytes_max if queued_bytes_max > 0 else BYTES_MAX_DEFAULT, request_bytes_max)


class RequestMemory:
    __slots__ = ("_favoured", "_favoured_since_ms", "_partial", "limit", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: set[Reader] = set()
        """Sessions that stopped reading because of the bound."""
        self._partial: dict[Reader, None] = {}
        """Those of them that stopped within a request, first to last."""
        self._favoured: Reader | None = None
        self._favoured_since_ms: int | None = None

    def may_read(self, reader: Reader) -> bool:
        if self.used < self.limit:
            return True
        if reader is self._favoured and reader.has_partial_request:
            return True
        return reader.held_bytes <= SHARE_BYTES and self.used < 2 * self.limit

    def wait(self, reader: Reader) -> None:
        """Have a session told to read on: when there is room, or when it is favoured."""
        self.waiting.add(reader)
        if reader.has_partial_request:
            self._partial[reader] = None
        if reader is self._favoured:
            self._favoured = None
        self._favour_next()

    def wake(self) -> None:
        """Some bytes were released: tell those who wait, if there is room, or else the next in line."""
        if self.used < self.limit:
            waiting, self.waiting = self.waiting, set()
            self._partial.clear()
            self._favoured = None
            for reader in waiting:
                reader.read_on()
        elif self._favoured is not None and not self._favoured.has_partial_request:
            self._favoured = None
            self._favour_next()

    def forget(self, reader: Reader) -> None:
        """A session is gone."""
        self.waiting.discard(reader)
        self._partial.pop(reader, None)
        if reader is self._favoured:
            self._favoured = None
            self._favour_next()

    def close_stalled(self, now_ms: int) -> None:
        """Close the favoured session if it has not completed its request in time; called now and then."""
        favoured = self._favoured
        if favoured is None or self.used < self.limit:
            self._favoured_since_ms = None
        elif self._favoured_since_ms is None:
            self._favoured_since_ms = now_ms
        elif now_ms - self._favoured_since_ms >= FAVOUR_MS_MAX:
            favoured.end(
                f"a request must be complete within {FAVOUR_MS_MAX} ms while requests of all connections "
                f"hold {self.limit} bytes (queued.max.request.bytes), got part of one"
            )

    def _favour_next(self) -> None:
        if self._favoured is None and self._partial:
            reader = next(iter(self._partial))
            del self._partial[reader]
            self.waiting.discard(reader)
            self._favoured = reader
            self._favoured_since_ms = None
            reader.read_on()
