"""Connection state of one node: its address, connection, and failed attempts."""

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
    """Connection timeouts, backoff and settings. An ``idle_max_ms`` below 0 keeps idle connections."""

    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1000
    setup_timeout_ms: int = 10_000
    setup_timeout_max_ms: int = 30_000
    idle_max_ms: int = 9 * 60_000
    in_flight_max: int = 5


class NodeStatus(NamedTuple):
    """Snapshot of a node's connection state, for choosing among nodes."""

    id: int
    is_ready: bool
    in_flight: int
    is_connecting: bool
    failures: int
    retry_at_ms: int
    last_attempt_ms: int


class NodeConnectionState:
    """Node with at most one connection. ``waiting`` are the futures of callers that wait to send."""

    __slots__ = (
        "_settings",
        "connecting",
        "connection",
        "failures",
        "host",
        "last_attempt_ms",
        "last_error",
        "name",
        "port",
        "retry_at_ms",
        "waiting",
    )

    def __init__(self, name: str, host: str, port: int, settings: ConnectionSettings) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.connection: BrokerConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.failures = 0
        self.retry_at_ms = 0
        self.last_attempt_ms = 0
        self.last_error: BaseException | None = None
        """Error of the last connection attempt; None after a success."""
        self.waiting: list[asyncio.Future[None]] = []
        self._settings = settings

    def move(self, name: str, host: str, port: int) -> None:
        """Set a new address; failures at the old one are reset."""
        if (self.host, self.port) != (host, port):
            self.name, self.host, self.port = name, host, port
            self.failures = self.retry_at_ms = 0

    def can_send(self, clock: Clock) -> bool:
        """Return whether a request can be sent now."""
        connection = self.connection
        return (
            connection is not None
            and not connection.is_reauthenticating
            and connection.in_flight < self._settings.in_flight_max
            and (connection.throttled_until_ms == 0 or _is_throttle_over(connection, clock.monotonic_ms()))
        )

    def node_status(self, node_id: int, clock: Clock) -> NodeStatus:
        return NodeStatus(
            node_id,
            self.can_send(clock),
            0 if self.connection is None else self.connection.in_flight,
            self.connecting is not None,
            self.failures,
            self.retry_at_ms,
            self.last_attempt_ms,
        )

    # Backoff.

    def setup_timeout_ms(self, entropy: Entropy) -> int:
        """Return the timeout of the next connection attempt."""
        settings = self._settings
        return exponential_backoff_ms(
            settings.setup_timeout_ms, settings.setup_timeout_max_ms, self.failures, entropy
        )

    def back_off(self, entropy: Entropy, now_ms: int) -> None:
        """Back off before the next connection attempt."""
        settings = self._settings
        backoff_ms = exponential_backoff_ms(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, self.failures, entropy
        )
        self.retry_at_ms = now_ms + backoff_ms
        self.failures += 1

    # Waiting for a change.

    async def wait_for_change(self) -> None:
        """Wait until the connection may have become ready."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(change)
        await change

    def wake(self, error: ClientError | None) -> None:
        waiting, self.waiting = self.waiting, []
        for change in waiting:
            if change.done():
                continue
            if error is None:
                change.set_result(None)
            else:
                change.set_exception(copy(error))


def _is_throttle_over(connection: BrokerConnection, now_ms: int) -> bool:
    if connection.throttled_until_ms > now_ms:
        return False
    connection.throttled_until_ms = 0
    return True
