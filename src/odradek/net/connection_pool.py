"""Connection pool: one connection per broker, opened on first use, reopened with backoff, closed when idle.

Each node has at most one connection. ``ready`` waits until it can send, and connects if necessary: at most
one attempt per node at a time, with exponential backoff between attempts. Callers that wait for an attempt
get its error at once, and may turn to another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Final

from odradek.model.client_errors import ClientClosed, ClientError, ConnectionFailed, TimedOut, caused_by
from odradek.net.broker_connection import BrokerConnection, Handshake
from odradek.net.connection_state import ConnectionSettings, NodeConnectionState, NodeStatus
from odradek.net.traffic import Traffic
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network
from odradek.telemetry import events
from odradek.wire.frames import make_scratch

log = events.logger("net")

# Checks for idle connections per idle_max_ms.
_IDLE_CHECKS: Final = 4
# Time that close waits for requests without a response to be sent.
_FLUSH_MAX_MS: Final = 1000


class ConnectionPool:
    """All connections of one client, or of one broker to others. Runs on one event loop."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        settings: ConnectionSettings,
        client_id: str | None,
        handshake: Handshake | None = None,
        on_disconnect: Callable[[], None] | None = None,
    ) -> None:
        """``on_disconnect`` is called when a connection attempt failed or a broker closed a connection."""
        self._on_disconnect = on_disconnect
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._settings = settings
        self._client_id = client_id
        self._handshake = handshake
        self._nodes: dict[int, NodeConnectionState] = {}
        self._scratch: memoryview | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed: ClientError | None = None
        self.traffic = Traffic()
        self.created_count = 0
        self.closed_count = 0

    # Nodes.

    def put_node(self, node_id: int, host: str, port: int, name: str | None = None) -> None:
        """Add a node or update its address. An open connection is kept; the next one uses the new address."""
        node = self._nodes.get(node_id)
        label = name or f"{node_id} ({host}:{port})"
        if node is None:
            self._nodes[node_id] = NodeConnectionState(label, host, port, self._settings)
        else:
            node.move(label, host, port)

    def remove_node(self, node_id: int) -> None:
        """Remove a node and close its connection."""
        node = self._nodes.pop(node_id, None)
        if node is None:
            return
        if node.connecting is not None:
            node.connecting.cancel()
        error = ConnectionFailed("the broker was removed from the cluster", broker=node.name)
        node.wake(error)
        if node.connection is not None:
            node.connection.close(error)

    def node_ids(self) -> Collection[int]:
        return self._nodes.keys()

    def name(self, node_id: int) -> str:
        node = self._nodes.get(node_id)
        return str(node_id) if node is None else node.name

    def node_status(self, node_id: int) -> NodeStatus:
        node = self._node(node_id)
        return node.node_status(node_id, self._clock)

    def versions(self, node_id: int) -> Mapping[int, range]:
        """Return the API versions of a broker; empty while not connected."""
        node = self._nodes.get(node_id)
        return {} if node is None or node.connection is None else node.connection.versions

    @property
    def open_count(self) -> int:
        return sum(1 for node in self._nodes.values() if node.connection is not None)

    # Requests.

    def send(
        self,
        node_id: int,
        request: object,
        timeout_ms: int | None = None,
        *,
        version_max: int | None = None,
        expects_response: bool = True,
        prompt: bool = False,
    ) -> Any:
        """Send now if the node is connected, not throttled and below its in-flight limit; else None.

        Returns a future of the decoded response; with ``prompt``, a PromptResponse.
        """
        node = self._nodes.get(node_id)
        if node is None or not node.can_send(self._clock):
            self._check_open()
            return None
        assert node.connection is not None
        return node.connection.send(
            request,
            self._settings.request_timeout_ms if timeout_ms is None else timeout_ms,
            version_max=version_max,
            expects_response=expects_response,
            prompt=prompt,
        )

    def is_ready(self, node_id: int) -> bool:
        node = self._nodes.get(node_id)
        return node is not None and node.can_send(self._clock)

    async def ready(self, node_id: int, timeout_ms: int) -> None:
        """Wait until a request can be sent. Raises ConnectionFailed if an attempt to connect failed."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self.is_ready(node_id):
                    await self._wait_for_next_step(self._node(node_id))
        except TimeoutError:
            message = f"not ready within {timeout_ms} ms"
            node = self._nodes.get(node_id)
            if node is not None and node.last_error is not None:
                late = TimedOut(f"{message}: {node.last_error}")
                raise caused_by(late, node.last_error) from node.last_error
            raise TimedOut(message, broker=self.name(node_id)) from None

    async def _wait_for_next_step(self, node: NodeConnectionState) -> None:
        """Wait for the next obstacle to sending: connection, in-flight limit or throttling."""
        self._check_open()
        connection = node.connection
        if connection is None:
            if node.connecting is None:
                node.connecting = self._start_connecting(node)
            await self._wait_for_connect(node.connecting)
        elif connection.is_reauthenticating or connection.in_flight >= self._settings.in_flight_max:
            await node.wait_for_change()
        else:
            await self._clock.sleep_ms(max(connection.throttled_until_ms - self._clock.monotonic_ms(), 1))

    async def _wait_for_connect(self, connecting: asyncio.Task[None]) -> None:
        """Wait for a connection attempt; cancelling the wait does not cancel the attempt."""
        await asyncio.wait([connecting])
        if connecting.cancelled():
            self._check_open()
            raise ConnectionFailed("the connection attempt was cancelled")
        if (error := connecting.exception()) is not None:
            raise caused_by(copy(error), error.__cause__) from error.__cause__

    # Connect.

    def _start_connecting(self, node: NodeConnectionState) -> asyncio.Task[None]:
        if self._scratch is None:
            self._scratch = make_scratch()
        connecting = asyncio.get_running_loop().create_task(self._connect(node), name=f"connect {node.name}")
        connecting.add_done_callback(lambda done: self._on_connect_done(node, done))
        return connecting

    async def _connect(self, node: NodeConnectionState) -> None:
        backoff_ms = node.retry_at_ms - self._clock.monotonic_ms()
        if backoff_ms > 0:
            await self._clock.sleep_ms(backoff_ms)
        node.last_attempt_ms = self._clock.monotonic_ms()
        connection = BrokerConnection(
            node.name,
            self._clock,
            self._client_id,
            lambda connection: self._changed(node, connection),
            self._scratch,
            self.traffic,
        )
        await connection.open(
            self._network,
            node.host,
            node.port,
            setup_timeout_ms=node.setup_timeout_ms(self._entropy),
            request_timeout_ms=self._settings.request_timeout_ms,
            handshake=self._handshake,
            reauthentication_part=_reauthentication_part(self._entropy),
        )
        node.connection = connection
        node.failures = 0
        node.last_error = None
        self.created_count += 1
        self._schedule_idle_check()

    def _on_connect_done(self, node: NodeConnectionState, done: asyncio.Task[None]) -> None:
        node.connecting = None
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            return
        # One warning per outage.
        log_event = log.debug if node.failures else log.warning
        log_event("connection_failed", broker=node.name, reason=str(error))
        node.last_error = error
        self._back_off(node)

    def _back_off(self, node: NodeConnectionState) -> None:
        node.back_off(self._entropy, self._clock.monotonic_ms())
        if self._on_disconnect is not None and self._closed is None:
            self._on_disconnect()

    def _changed(self, node: NodeConnectionState, connection: BrokerConnection) -> None:
        if not connection.is_open and node.connection is connection:
            node.connection = None
            self.closed_count += 1
            if not connection.is_closed_by_client:
                log.info("connection_ended", broker=node.name)
                self._back_off(node)
        if node.waiting:
            node.wake(None)

    # Close.

    def _schedule_idle_check(self) -> None:
        idle_max_ms = self._settings.idle_max_ms
        if idle_max_ms >= 0 and self._idle_timer is None and self._closed is None:
            wait_s = max(idle_max_ms // _IDLE_CHECKS, 1) / 1000
            self._idle_timer = asyncio.get_running_loop().call_later(wait_s, self._close_idle)

    def _close_idle(self) -> None:
        self._idle_timer = None
        oldest_ms = self._clock.monotonic_ms() - self._settings.idle_max_ms
        for node in list(self._nodes.values()):
            connection = node.connection
            if connection is not None and not connection.in_flight and connection.idle_since_ms <= oldest_ms:
                self._close_connection(node, connection, "the connection was idle")
        if self.open_count:
            self._schedule_idle_check()

    def _close_connection(self, node: NodeConnectionState, connection: BrokerConnection, reason: str) -> None:
        """Close a connection without backoff for the next one."""
        connection.is_closed_by_client = True
        connection.close(ConnectionFailed(reason, broker=node.name))

    def close_unused(self, node_id: int) -> None:
        """Close a connection without in-flight requests; the node stays."""
        node = self._nodes.get(node_id)
        if node is not None and node.connection is not None and not node.connection.in_flight:
            self._close_connection(node, node.connection, "the connection is no longer needed")

    async def close(self, reason: ClientError | None = None) -> None:
        """Close all connections; in-flight and waiting requests fail with ``ClientClosed``."""
        if self._closed is None:
            self._closed = reason or ClientClosed("the client is closed")
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        await self._flush()
        connecting = [node.connecting for node in self._nodes.values() if node.connecting is not None]
        for node in self._nodes.values():
            if node.connecting is not None:
                node.connecting.cancel()
            if node.connection is not None:
                node.connection.close(self._closed)
            node.wake(self._closed)
        if connecting:
            await asyncio.wait(connecting)

    async def _flush(self) -> None:
        """Wait briefly until requests without a response are sent: callers consider them done."""
        connections = [node.connection for node in self._nodes.values() if node.connection is not None]
        unsent = [future for connection in connections for future in connection.unsent if not future.done()]
        if unsent:
            await asyncio.wait(unsent, timeout=_FLUSH_MAX_MS / 1000)

    def _node(self, node_id: int) -> NodeConnectionState:
        node = self._nodes.get(node_id)
        if node is None:
            self._check_open()
            raise ConnectionFailed(f"the cluster has no broker {node_id}")
        return node

    def _check_open(self) -> None:
        if self._closed is not None:
            raise copy(self._closed)


def _reauthentication_part(entropy: Entropy) -> float:
    """Return the part of a session's lifetime after which to re-authenticate: 0.85 to 0.95, as in Kafka."""
    return 0.85 + entropy.below(100) / 1000
