"""Connections to brokers by id: made when first needed, made again after a rest, ended when unused.

A place is an id with an address; it has at most one connection. ``ready`` waits for one with room, and makes
it if there is none: at most one attempt at a time and place, the next after a rest that grows with each
failure. Whoever waits for an attempt that fails is told at once, and may turn to another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Final

from odradek.model.client_errors import ClientClosed, ClientError, ConnectionFailed, TimedOut
from odradek.net.broker_connection import BrokerConnection, Handshake
from odradek.net.connection_state import ConnectionSettings, NodeStatus, Place
from odradek.net.traffic import Traffic
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network
from odradek.telemetry import events
from odradek.wire.frames import make_scratch

log = events.logger("net")

# Idle connections are looked for so many times within the time they may idle.
_IDLE_LOOKS: Final = 4
# How long a client that is closed waits for the network to take what gets no answer.
_FLUSH_MAX_MS: Final = 1000


class ConnectionPool:
    """All connections of one client, or of one broker to others. Lives on one event loop."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        limits: ConnectionSettings,
        client_id: str | None,
        handshake: Handshake | None = None,
        lost: Callable[[], None] | None = None,
    ) -> None:
        """``lost`` is called when a broker could not be reached, or ended a connection."""
        self._lost = lost
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._client_id = client_id
        self._handshake = handshake
        self._places: dict[int, Place] = {}
        self._scratch: memoryview | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._closed: ClientError | None = None
        self.traffic = Traffic()
        self.created_count = 0
        self.closed_count = 0

    # Places.

    def put(self, peer_id: int, host: str, port: int, name: str | None = None) -> None:
        """Say where a broker is. A connection that stands is kept; the next one goes to the new address."""
        place = self._places.get(peer_id)
        shown = name or f"{peer_id} ({host}:{port})"
        if place is None:
            self._places[peer_id] = Place(shown, host, port, self._limits)
        else:
            place.move(shown, host, port)

    def drop(self, peer_id: int) -> None:
        """Forget a place, and end its connection."""
        place = self._places.pop(peer_id, None)
        if place is None:
            return
        if place.dialling is not None:
            place.dialling.cancel()
        gone = ConnectionFailed("the broker is no longer part of the cluster", broker=place.name)
        place.wake(gone)
        if place.peer is not None:
            place.peer.close(gone)

    def ids(self) -> Collection[int]:
        return self._places.keys()

    def name(self, peer_id: int) -> str:
        place = self._places.get(peer_id)
        return str(peer_id) if place is None else place.name

    def node_status(self, peer_id: int) -> NodeStatus:
        place = self._place(peer_id)
        return place.node_status(peer_id, self._clock)

    def versions(self, peer_id: int) -> Mapping[int, range]:
        """What a broker offers; empty while there is no connection to it."""
        place = self._places.get(peer_id)
        return {} if place is None or place.peer is None else place.peer.versions

    @property
    def open_count(self) -> int:
        return sum(1 for place in self._places.values() if place.peer is not None)

    # Asking.

    def begin(
        self,
        peer_id: int,
        request: Any,
        timeout_ms: int | None = None,
        *,
        version_max: int | None = None,
        expects_response: bool = True,
    ) -> asyncio.Future[Any] | None:
        """Send now, if the broker is connected, not throttling us, and has room; else give None."""
        place = self._places.get(peer_id)
        if place is None or not place.is_free(self._clock):
            self._check_open()
            return None
        assert place.peer is not None
        return place.peer.begin(
            request,
            self._limits.request_timeout_ms if timeout_ms is None else timeout_ms,
            version_max=version_max,
            expects_response=expects_response,
        )

    def is_ready(self, peer_id: int) -> bool:
        place = self._places.get(peer_id)
        return place is not None and place.is_free(self._clock)

    async def ready(self, peer_id: int, timeout_ms: int) -> None:
        """Wait until a request can be sent. Raises ConnectionFailed if an attempt to connect failed."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self.is_ready(peer_id):
                    await self._come_nearer(self._place(peer_id))
        except TimeoutError:
            what = f"not ready for a request within {timeout_ms} ms"
            place = self._places.get(peer_id)
            if place is not None and place.trouble is not None:
                raise TimedOut(f"{what}: {place.trouble}") from place.trouble
            raise TimedOut(what, broker=self.name(peer_id)) from None

    async def _come_nearer(self, place: Place) -> None:
        """Wait for the next thing that is in the way of a request."""
        self._check_open()
        peer = place.peer
        if peer is None:
            if place.dialling is None:
                place.dialling = self._begin_dial(place)
            await self._outcome(place.dialling)
        elif peer.in_flight >= self._limits.in_flight_max:
            await place.room()
        else:
            await self._clock.sleep_ms(max(peer.throttled_until_ms - self._clock.monotonic_ms(), 1))

    async def _outcome(self, dialling: asyncio.Task[None]) -> None:
        """Wait for an attempt that others may wait for too: giving up waiting does not end it."""
        await asyncio.wait([dialling])
        if dialling.cancelled():
            self._check_open()
            raise ConnectionFailed("the attempt to connect was given up")
        if (failed := dialling.exception()) is not None:
            raise copy(failed) from failed.__cause__

    # Connecting.

    def _begin_dial(self, place: Place) -> asyncio.Task[None]:
        if self._scratch is None:
            self._scratch = make_scratch()
        dialling = asyncio.get_running_loop().create_task(self._dial(place), name=f"dial {place.name}")
        dialling.add_done_callback(lambda done: self._dialled(place, done))
        return dialling

    async def _dial(self, place: Place) -> None:
        rest_ms = place.retry_at_ms - self._clock.monotonic_ms()
        if rest_ms > 0:
            await self._clock.sleep_ms(rest_ms)
        place.last_attempt_ms = self._clock.monotonic_ms()
        peer = BrokerConnection(
            place.name,
            self._clock,
            self._client_id,
            lambda peer: self._changed(place, peer),
            self._scratch,
            self.traffic,
        )
        await peer.open(
            self._network,
            place.host,
            place.port,
            dial_timeout_ms=place.setup_timeout_ms(self._entropy),
            answer_timeout_ms=self._limits.request_timeout_ms,
            handshake=self._handshake,
        )
        place.peer = peer
        place.failures = 0
        place.trouble = None
        self.created_count += 1
        self._look_for_idle()

    def _dialled(self, place: Place, done: asyncio.Task[None]) -> None:
        place.dialling = None
        if done.cancelled():
            return
        failed = done.exception()
        if failed is None:
            return
        # Once for a broker that is away, however long it is.
        tell = log.debug if place.failures else log.warning
        tell("connection_failed", broker=place.name, reason=str(failed))
        place.trouble = failed
        self._rest(place)

    def _rest(self, place: Place) -> None:
        place.rest(self._entropy, self._clock.monotonic_ms())
        if self._lost is not None and self._closed is None:
            self._lost()

    def _changed(self, place: Place, peer: BrokerConnection) -> None:
        if not peer.is_open and place.peer is peer:
            place.peer = None
            self.closed_count += 1
            if not peer.is_retired:
                log.info("connection_ended", broker=place.name)
                self._rest(place)
        if place.waiting:
            place.wake(None)

    # Ending.

    def _look_for_idle(self) -> None:
        idle_max_ms = self._limits.idle_max_ms
        if idle_max_ms >= 0 and self._sweep is None and self._closed is None:
            wait_s = max(idle_max_ms // _IDLE_LOOKS, 1) / 1000
            self._sweep = asyncio.get_running_loop().call_later(wait_s, self._end_idle)

    def _end_idle(self) -> None:
        self._sweep = None
        oldest_ms = self._clock.monotonic_ms() - self._limits.idle_max_ms
        for place in list(self._places.values()):
            peer = place.peer
            if peer is not None and not peer.in_flight and peer.idle_since_ms <= oldest_ms:
                self._retire(place, peer, "the connection was not used for long")
        if self.open_count:
            self._look_for_idle()

    def _retire(self, place: Place, peer: BrokerConnection, why: str) -> None:
        """End a connection in order: the next may be made at once."""
        peer.is_retired = True
        peer.close(ConnectionFailed(why, broker=place.name))

    def retire(self, peer_id: int) -> None:
        """End a connection that nothing is under way on; the place stays."""
        place = self._places.get(peer_id)
        if place is not None and place.peer is not None and not place.peer.in_flight:
            self._retire(place, place.peer, "the connection is not needed any more")

    async def close(self, reason: ClientError | None = None) -> None:
        """End all; what is under way or waits fails with ``ClientClosed``."""
        if self._closed is None:
            self._closed = reason or ClientClosed("the client has been closed")
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        await self._flush()
        dialling = [place.dialling for place in self._places.values() if place.dialling is not None]
        for place in self._places.values():
            if place.dialling is not None:
                place.dialling.cancel()
            if place.peer is not None:
                place.peer.close(self._closed)
            place.wake(self._closed)
        if dialling:
            await asyncio.wait(dialling)

    async def _flush(self) -> None:
        """Requests without an answer are taken for done: let them leave, if brokers take them soon."""
        peers = [place.peer for place in self._places.values() if place.peer is not None]
        leaving = [answer for peer in peers for answer in peer.leaving if not answer.done()]
        if leaving:
            await asyncio.wait(leaving, timeout=_FLUSH_MAX_MS / 1000)

    def _place(self, peer_id: int) -> Place:
        place = self._places.get(peer_id)
        if place is None:
            self._check_open()
            raise ConnectionFailed(f"there is no broker {peer_id} in the cluster")
        return place

    def _check_open(self) -> None:
        if self._closed is not None:
            raise copy(self._closed)
