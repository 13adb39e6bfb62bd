"""Listener: accepts connections for one endpoint, within the connection quotas.

Quotas: ``max.connections`` for the broker and per listener, ``max.connections.per.ip`` with its overrides,
``connections.max.idle.ms``, and the rates of ``ConnectionRates``. The counts are shared by all listeners of a
broker. A lowered limit closes no connection; it applies to new ones.

While a listener is over its rate it accepts no connections: they wait in the system's queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from odradek.broker.network.session import Session
from odradek.broker.network.session_muter import SessionMuter
from odradek.broker.quotas.connection_rates import NO_DELAY, ConnectionDelay, ConnectionRates
from odradek.config import broker as settings
from odradek.config import derived
from odradek.config.definition import Settings
from odradek.ports.network import Connection, ListeningSocket, Network, Receiver
from odradek.telemetry import events
from odradek.wire.server_connection import Request

DELAYED_CLOSES_MAX: Final = 1_000
"""Connections over the rate of their address that are kept open for a while; further ones close at once."""

log = events.logger("listener")


@dataclass(slots=True)
class ConnectionQuotas:
    """Connection limits and counts. Listener limits are by lower-case name."""

    total_max: int
    per_host_max: int
    host_overrides: Mapping[str, int] = field(default_factory=dict)
    listener_max: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    by_host: Counter[str] = field(default_factory=Counter)

    def update(self, values: Settings) -> None:
        """Take the limits from these settings."""
        self.total_max = values[settings.MAX_CONNECTIONS]
        self.per_host_max = values[settings.MAX_CONNECTIONS_PER_IP]
        self.host_overrides = derived.connection_limits(values)
        self.listener_max = {
            listener: values.for_listener(listener, settings.MAX_CONNECTIONS)
            for listener in values.listeners_overriding(settings.MAX_CONNECTIONS)
        }

    def rejection_reason(
        self, listener: str, listener_count: int, *, is_protected: bool = False
    ) -> str | None:
        """Return the reason to reject any new connection; ``listener_count`` counts this listener's.

        A protected listener is exempt from the limit of the broker, as in Kafka: clients that use up all
        connections must not cut off replication.
        """
        if self.total >= self.total_max and not is_protected:
            return f"max.connections={self.total_max} reached"
        listener_max = self.listener_max.get(listener.lower(), self.total_max)
        if listener_count >= listener_max:
            return f"max.connections={listener_max} reached for listener {listener}"
        return None

    def host_rejection_reason(self, host: str) -> str | None:
        """Return the reason to reject a new connection of an address."""
        host_max = self.host_overrides.get(host, self.per_host_max)
        if self.by_host[host] >= host_max:
            return f"max.connections.per.ip={host_max} reached for {host}"
        return None

    def opened(self, host: str) -> None:
        self.total += 1
        self.by_host[host] += 1

    def closed(self, host: str) -> None:
        self.total -= 1
        self.by_host[host] -= 1
        if not self.by_host[host]:
            del self.by_host[host]


class Security(Protocol):
    """Encryption and authentication of the connections of one listener."""

    def network(self, network: Network) -> Network:
        """Return the network on which to listen."""
        ...

    def frame_bytes_max(self, values: Settings) -> int:
        """Return the largest first request of a connection."""
        ...

    def begin(
        self, session: Session, connection: Connection, dispatch: Callable[[Request, Session], None]
    ) -> None:
        """Let a new session authenticate before it is served."""
        ...

    def problems(self, values: Settings) -> list[str]:
        """Return why changed settings of the listener cannot be used."""
        ...

    def update(self, values: Settings) -> list[str]:
        """Use changed settings for new connections; return the problems if they keep the previous ones."""
        ...

    def reload(self) -> None:
        """Read certificates again if their files have changed."""
        ...


MakeSession = Callable[[Connection, "Listener"], Session]


class ConnectionThrottling:
    """Delays new connections over their rates; shared by all listeners of a broker."""

    def __init__(self, rates: ConnectionRates, muter: SessionMuter, now_ms: Callable[[], int]) -> None:
        self.rates = rates
        self.muter = muter
        self.now_ms = now_ms
        self.delayed_closes = 0


class _ThrottledConnection:
    """Receiver of a connection that is closed after a delay; nothing is read from it."""

    def __init__(self, connection: Connection, on_closed: Callable[[], None]) -> None:
        self._connection = connection
        self._on_closed = on_closed
        self._is_lost = False

    def receive_buffer(self) -> memoryview:
        return memoryview(bytearray(1))

    def bytes_received(self, count: int) -> None:
        self._connection.pause()

    def output_drained(self) -> None:
        """Nothing is ever sent."""

    def connection_lost(self, reason: str | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._on_closed()

    def close(self) -> None:
        if not self._is_lost:
            self._connection.close()


class Listener:
    """One endpoint and the sessions accepted through it."""

    def __init__(
        self,
        name: str,
        quotas: ConnectionQuotas,
        make_session: MakeSession,
        throttling: ConnectionThrottling | None = None,
        is_protected: Callable[[], bool] = lambda: False,
        security: Security | None = None,
    ) -> None:
        """A protected listener is exempt from the limit and rate of the broker: other brokers use it.

        Without ``security``, connections are neither encrypted nor authenticated.
        """
        self.name = name
        self.security = security
        self._throttling = throttling
        self._is_protected = is_protected
        self.sessions: dict[Session, None] = {}
        """Open sessions, oldest first: they are closed in that order."""
        self._quotas = quotas
        self._make_session = make_session
        self._socket: ListeningSocket | None = None
        self._is_serving = False

    @property
    def port(self) -> int:
        assert self._socket is not None
        return self._socket.port

    async def bind(self, network: Network, host: str, port: int) -> ListeningSocket:
        """Bind an address and accept connections. Their requests wait for ``serve``."""
        return await network.listen(host, port, self._accept)

    def replace_socket(self, socket: ListeningSocket) -> None:
        """Replace the listening socket and close the previous one."""
        self.stop_accepting()
        self._socket = socket

    def serve(self) -> None:
        """Start the requests received so far, and all later ones."""
        self._is_serving = True
        for session in list(self.sessions):
            session.release()

    def stop_accepting(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def on_session_closed(self, session: Session) -> None:
        self.sessions.pop(session, None)
        self._quotas.closed(session.peer_host)

    def close_idle(self, now_ms: int, idle_max_ms: int) -> None:
        """Abort sessions that have been idle for longer than ``idle_max_ms``.

        Without flushing: a client that has not read its response by then would keep the session open forever.
        """
        for session in list(self.sessions):
            if session.was_active():
                session.idle_since_ms = now_ms
            elif now_ms - session.idle_since_ms > idle_max_ms:
                log.info("connection_idle", peer=session.peer, idle_ms=now_ms - session.idle_since_ms)
                session.abort()

    def _accept(self, connection: Connection) -> Receiver | None:
        host, delay = connection.peer_host, NO_DELAY
        reason = self._quotas.rejection_reason(
            self.name, len(self.sessions), is_protected=self._is_protected()
        )
        if reason is None and self._throttling is not None:
            delay = self._throttle(self._throttling, host)
            if delay.ip_ms:
                return self._close_later(self._throttling, connection, delay.ip_ms)
        reason = reason or self._quotas.host_rejection_reason(host)
        if reason is not None:
            log.warning("connection_refused", peer=connection.peer, listener=self.name, reason=reason)
            return None
        self._quotas.opened(host)
        session = self._make_session(connection, self)
        if not self._is_serving:
            session.hold()
        if delay.accept_ms and self._throttling is not None:
            self._throttling.muter.hold(session, delay.accept_ms)
        self.sessions[session] = None
        return session

    def _throttle(self, throttling: ConnectionThrottling, host: str) -> ConnectionDelay:
        """Record a new connection; if it is too early, accept no further ones for a while."""
        delay = throttling.rates.record(
            self.name, host, throttling.now_ms(), is_protected=self._is_protected()
        )
        if delay.accept_ms and self._socket is not None:
            socket = self._socket
            socket.pause()
            throttling.muter.call_later(delay.accept_ms, socket.resume)
        return delay

    def _close_later(
        self, throttling: ConnectionThrottling, connection: Connection, delay_ms: int
    ) -> Receiver | None:
        """Close a connection after its throttle time, so that its client does not retry at once."""
        if throttling.delayed_closes >= DELAYED_CLOSES_MAX:
            return None

        def on_closed() -> None:
            throttling.delayed_closes -= 1

        throttling.delayed_closes += 1
        # A handshake takes more CPU time than anything else that a stranger can ask for.
        refuse = getattr(connection, "refuse", None)
        if refuse is not None:
            refuse()
        throttled = _ThrottledConnection(connection, on_closed)
        throttling.muter.call_later(delay_ms, throttled.close)
        return throttled
