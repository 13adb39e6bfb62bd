"""Memory pool of requests, from their first byte to their response, over all connections.

The limit is ``queued.max.request.bytes``, or ``BYTES_MAX_DEFAULT`` if that is not set. At the limit, sessions
that hold more than a small share stop reading until some requests complete; sessions with small requests go
on. At twice the limit all stop.

Requests that are never completed by their client would exhaust the pool. So one session at a time, the first
that stopped, has priority and may read at the limit: it either completes its request or is closed after
``PRIORITY_MS_MAX``, and the next one follows.

Invariant: ``used`` is the number of bytes received of all requests without a response. It exceeds twice the
limit by at most one request and one read of each connection.
"""

from __future__ import annotations

from typing import Final, Protocol

from odradek.config.types import MIB

BYTES_MAX_DEFAULT: Final = 512 * MIB
"""Five requests of the largest default size, or some hundred of the usual largest size."""
SHARE_BYTES: Final = 256 * 1024
PRIORITY_MS_MAX: Final = 30_000


class Reader(Protocol):
    """Session as seen by the pool."""

    @property
    def held_bytes(self) -> int:
        """Bytes received of requests without a response."""
        ...

    @property
    def has_partial_request(self) -> bool: ...

    def try_resume(self) -> None:
        """Check the limits again, and resume reading if possible."""
        ...

    def close_with_reason(self, reason: str) -> None: ...


def memory_limit(queued_bytes_max: int, request_bytes_max: int) -> int:
    """Return the limit for these settings. It fits the largest request."""
    return max(queued_bytes_max if queued_bytes_max > 0 else BYTES_MAX_DEFAULT, request_bytes_max)


class RequestMemoryPool:
    __slots__ = ("_partial", "_priority", "_priority_since_ms", "limit", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: set[Reader] = set()
        """Sessions that stopped reading at the limit."""
        self._partial: dict[Reader, None] = {}
        """The waiting sessions with a partial request, in the order they stopped."""
        self._priority: Reader | None = None
        self._priority_since_ms: int | None = None

    def may_read(self, reader: Reader) -> bool:
        if self.used < self.limit:
            return True
        if reader is self._priority and reader.has_partial_request:
            return True
        return reader.held_bytes <= SHARE_BYTES and self.used < 2 * self.limit

    def wait(self, reader: Reader) -> None:
        """Wake a session once there is room or it has priority."""
        self.waiting.add(reader)
        if reader.has_partial_request:
            self._partial[reader] = None
        if reader is self._priority:
            self._priority = None
        self._prioritize_next()

    def wake(self) -> None:
        """After a release: wake all waiting sessions if there is room, else the next with priority."""
        if self.used < self.limit:
            waiting, self.waiting = self.waiting, set()
            self._partial.clear()
            self._priority = None
            for reader in waiting:
                reader.try_resume()
        elif self._priority is not None and not self._priority.has_partial_request:
            self._priority = None
            self._prioritize_next()

    def remove(self, reader: Reader) -> None:
        """Remove a closed session."""
        self.waiting.discard(reader)
        self._partial.pop(reader, None)
        if reader is self._priority:
            self._priority = None
            self._prioritize_next()

    def close_stalled_session(self, now_ms: int) -> None:
        """Close the priority session if it did not complete its request in time; called periodically."""
        priority = self._priority
        if priority is None or self.used < self.limit:
            self._priority_since_ms = None
        elif self._priority_since_ms is None:
            self._priority_since_ms = now_ms
        elif now_ms - self._priority_since_ms >= PRIORITY_MS_MAX:
            priority.close_with_reason(
                f"a request must be complete within {PRIORITY_MS_MAX} ms while requests of all connections "
                f"hold {self.limit} bytes (queued.max.request.bytes), got part of one"
            )

    def _prioritize_next(self) -> None:
        if self._priority is None and self._partial:
            reader = next(iter(self._partial))
            del self._partial[reader]
            self.waiting.discard(reader)
            self._priority = reader
            self._priority_since_ms = None
            reader.try_resume()
