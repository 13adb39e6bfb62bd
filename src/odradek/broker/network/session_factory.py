"""Sessions of new connections, with the request queue and the request memory that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.network.connection_scheduler import ConnectionScheduler
from odradek.broker.network.listener import Listener
from odradek.broker.network.memory_pool import RequestMemoryPool, memory_limit
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.config import broker as settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.ports.clock import Clock
from odradek.ports.network import Connection
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents
from odradek.wire.frames import make_scratch
from odradek.wire.server_connection import Request

Dispatch = Callable[[Request, Session], None]


class SessionFactory:
    """Makes the sessions of connections. They share the request queue, request memory and scratch buffer."""

    def __init__(self, config: DynamicBrokerConfig, clock: Clock) -> None:
        static = config.broker
        self.request_queue = RequestQueue(static[settings.QUEUED_MAX_REQUESTS])
        self.memory_pool = RequestMemoryPool(
            memory_limit(static[settings.QUEUED_MAX_REQUEST_BYTES], static[settings.SOCKET_REQUEST_MAX_BYTES])
        )
        self.dispatch: Dispatch | None = None
        """Starts a request; set before the first connection is served."""
        self._config = config
        self._connection_scheduler = ConnectionScheduler(
            clock.monotonic_ns, asyncio.get_running_loop().call_soon
        )
        # Shared by all connections: they receive one after the other, on one loop.
        self._scratch = make_scratch()
        self._close_events = RateLimitedEvents(events.logger("session"), clock.monotonic_ms)

    def make_session(self, connection: Connection, listener: Listener) -> Session:
        values = self._config.broker
        assert self.dispatch is not None
        security = listener.security
        session = Session(
            connection,
            listener.name,
            self.dispatch,
            listener.on_session_closed,
            self._connection_scheduler,
            self.request_queue,
            self.memory_pool,
            frame_bytes_max=(
                values[settings.SOCKET_REQUEST_MAX_BYTES]
                if security is None
                else security.frame_bytes_max(values)
            ),
            in_flight_max=values[settings.ODRADEK_CONNECTION_UNANSWERED_MAX],
            scratch=self._scratch,
            close_events=self._close_events,
        )
        if security is not None:
            security.begin(session, connection, self.dispatch)
        return session
