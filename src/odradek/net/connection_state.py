"""Where one broker is, its connection if there is one, and what became of attempts to reach it."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import NamedTuple

from odradek.model.client_errors import ClientError
from odradek.net.backoff import exponential_backoff_ms
from odradek.net.broker_connection import BrokerConnection
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy


class ConnectionSettings(NamedTuple):
    """How connections are made and kept. An ``idle_max_ms`` below 0 keeps unused ones."""

    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1000
    setup_timeout_ms: int = 10_000
    setup_timeout_max_ms: int = 30_000
    idle_max_ms: int = 9 * 60_000
    in_flight_max: int = 5


class NodeStatus(NamedTuple):
    """What is known of one place, for whoever chooses among them."""

    id: int
    is_ready: bool
    in_flight: int
    is_dialling: bool
    failures: int
    retry_at_ms: int
    last_attempt_ms: int


class Place:
    """An address with at most one connection. ``waiting`` are those who want to send and cannot yet."""

    __slots__ = (
        "_limits",
        "dialling",
        "failures",
        "host",
        "last_attempt_ms",
        "name",
        "peer",
        "port",
        "retry_at_ms",
        "trouble",
        "waiting",
    )

    def __init__(self, name: str, host: str, port: int, limits: ConnectionSettings) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.peer: BrokerConnection | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.failures = 0
        self.retry_at_ms = 0
        self.last_attempt_ms = 0
        self.trouble: BaseException | None = None
        """Why the last attempt to connect failed; None if it did not."""
        self.waiting: list[asyncio.Future[None]] = []
        self._limits = limits

    def move(self, name: str, host: str, port: int) -> None:
        """The broker is somewhere else now: what failed before says nothing of that."""
        if (self.host, self.port) != (host, port):
            self.name, self.host, self.port = name, host, port
            self.failures = self.retry_at_ms = 0

    def is_free(self, clock: Clock) -> bool:
        """Whether a request can be sent now."""
        peer = self.peer
        return (
            peer is not None
            and peer.in_flight < self._limits.in_flight_max
            and (peer.throttled_until_ms == 0 or _is_unmuted(peer, clock.monotonic_ms()))
        )

    def node_status(self, peer_id: int, clock: Clock) -> NodeStatus:
        return NodeStatus(
            peer_id,
            self.is_free(clock),
            0 if self.peer is None else self.peer.in_flight,
            self.dialling is not None,
            self.failures,
            self.retry_at_ms,
            self.last_attempt_ms,
        )

    # After a failure.

    def setup_timeout_ms(self, entropy: Entropy) -> int:
        """How long the next attempt to connect may take."""
        limits = self._limits
        return exponential_backoff_ms(
            limits.setup_timeout_ms, limits.setup_timeout_max_ms, self.failures, entropy
        )

    def rest(self, entropy: Entropy, now_ms: int) -> None:
        """Make no attempt for a while."""
        limits = self._limits
        rest_ms = exponential_backoff_ms(
            limits.reconnect_backoff_ms, limits.reconnect_backoff_max_ms, self.failures, entropy
        )
        self.retry_at_ms = now_ms + rest_ms
        self.failures += 1

    # Waiting for room.

    async def room(self) -> None:
        """Wait until something changed that may have made room."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(change)
        await change

    def wake(self, failed: ClientError | None) -> None:
        waiting, self.waiting = self.waiting, []
        for change in waiting:
            if change.done():
                continue
            if failed is None:
                change.set_result(None)
            else:
                change.set_exception(copy(failed))


def _is_unmuted(peer: BrokerConnection, now_ms: int) -> bool:
    if peer.throttled_until_ms > now_ms:
        return False
    peer.throttled_until_ms = 0
    return True
