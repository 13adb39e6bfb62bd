"""Accepts connections for one endpoint, within the limits on how many there may be.

Limits: ``max.connections`` for the broker as a whole and for one listener, ``max.connections.per.ip`` with
its overrides, and ``connections.max.idle.ms``. The counts are shared by all listeners of a broker. A limit
that is lowered closes no connection: it holds for new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odradek.broker.network.session import Session
from odradek.config import broker as settings
from odradek.config import derived
from odradek.config.definition import Settings
from odradek.ports.network import Connection, ListeningSocket, Network
from odradek.telemetry import events

log = events.logger("listener")


@dataclass(slots=True)
class ConnectionLimits:
    """Number of connections there may be, and there are. Limits of listeners by lower-case name."""

    total_max: int
    per_host_max: int
    host_overrides: Mapping[str, int] = field(default_factory=dict)
    listener_max: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    by_host: Counter[str] = field(default_factory=Counter)

    def follow(self, values: Settings) -> None:
        """Take the limits over from these settings."""
        self.total_max = values[settings.MAX_CONNECTIONS]
        self.per_host_max = values[settings.MAX_CONNECTIONS_PER_IP]
        self.host_overrides = derived.connection_limits(values)
        self.listener_max = {
            listener: values.for_listener(listener, settings.MAX_CONNECTIONS)
            for listener in values.listeners_overriding(settings.MAX_CONNECTIONS)
        }

    def why_not(self, host: str, listener: str, open_there: int) -> str | None:
        """Return the reason to refuse one more connection, if any; ``open_there`` are of this listener."""
        if self.total >= self.total_max:
            return f"max.connections={self.total_max} reached"
        listener_max = self.listener_max.get(listener.lower(), self.total_max)
        if open_there >= listener_max:
            return f"max.connections={listener_max} reached for listener {listener}"
        allowed = self.host_overrides.get(host, self.per_host_max)
        if self.by_host[host] >= allowed:
            return f"max.connections.per.ip={allowed} reached for {host}"
        return None

    def opened(self, host: str) -> None:
        self.total += 1
        self.by_host[host] += 1

    def closed(self, host: str) -> None:
        self.total -= 1
        self.by_host[host] -= 1
        if not self.by_host[host]:
            del self.by_host[host]


MakeSession = Callable[[Connection, "Listener"], Session]


class Listener:
    """One endpoint and the sessions accepted through it."""

    def __init__(self, name: str, limits: ConnectionLimits, make_session: MakeSession) -> None:
        self.name = name
        self.sessions: set[Session] = set()
        self._limits = limits
        self._make_session = make_session
        self._socket: ListeningSocket | None = None
        self._is_serving = False

    @property
    def port(self) -> int:
        assert self._socket is not None
        return self._socket.port

    async def bind(self, network: Network, host: str, port: int) -> ListeningSocket:
        """Take an address and accept connections there. Their requests wait for ``serve``."""
        return await network.listen(host, port, self._accept)

    def use(self, socket: ListeningSocket) -> None:
        """Have this socket from now on, and close the one there was."""
        self.stop_accepting()
        self._socket = socket

    def serve(self) -> None:
        """Begin the requests that came so far, and all others: the broker can answer them now."""
        self._is_serving = True
        for session in list(self.sessions):
            session.release()

    def stop_accepting(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def session_ended(self, session: Session) -> None:
        self.sessions.discard(session)
        self._limits.closed(session.peer_host)

    def close_idle(self, now_ms: int, idle_max_ms: int) -> None:
        """Cut sessions off that have been silent for longer than allowed.

        An answer that the peer has not taken by then never will be: flushing it first would keep the session
        for good.
        """
        for session in list(self.sessions):
            if session.was_active():
                session.idle_since_ms = now_ms
            elif now_ms - session.idle_since_ms > idle_max_ms:
                log.info("connection_idle", peer=session.peer, idle_ms=now_ms - session.idle_since_ms)
                session.cut_off()

    def _accept(self, connection: Connection) -> Session | None:
        reason = self._limits.why_not(connection.peer_host, self.name, len(self.sessions))
        if reason is not None:
            log.warning("connection_refused", peer=connection.peer, listener=self.name, reason=reason)
            return None
        self._limits.opened(connection.peer_host)
        session = self._make_session(connection, self)
        if not self._is_serving:
            session.hold()
        self.sessions.add(session)
        return session
