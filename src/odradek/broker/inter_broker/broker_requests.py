"""Requests to other brokers over the inter-broker listener, to the controller, and to this broker itself.

Endpoints come from the metadata cache at each send, so that a broker that moved is found again. All senders
share one connection per broker; one that waits long for responses opens a channel with its own connection.
The local broker is called without a connection: its dispatcher gets the request object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from odradek.cluster.metadata_cache import NO_CONTROLLER, MetadataCache
from odradek.model.client_errors import ConnectionFailed, TimedOut
from odradek.net.broker_connection import Handshake
from odradek.net.connection_pool import ConnectionPool
from odradek.net.connection_state import ConnectionSettings
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.network import Network

IN_FLIGHT_MAX: Final = 100
"""Requests without a response on the shared connection to one broker; further ones wait for their turn."""
CHANNELS_MAX: Final = 10_000
"""Open channels; more than fetchers and coordinators of one broker ever need."""


class LocalCall(Protocol):
    """Handles a request object on this broker; returns its response."""

    def __call__(self, request: Any, *, version_max: int | None) -> Awaitable[Any]: ...


class _Peers:
    """Addresses of the brokers, and how to connect to them."""

    def __init__(
        self,
        broker_id: int,
        listener_name: str,
        metadata_cache: MetadataCache,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        request_timeout_ms: int,
        handshake: Handshake | None,
    ) -> None:
        self.broker_id = broker_id
        self._listener_name = listener_name
        self._metadata_cache = metadata_cache
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._request_timeout_ms = request_timeout_ms
        self._handshake = handshake

    def open_pool(self, client_id: str) -> ConnectionPool:
        settings = ConnectionSettings(
            request_timeout_ms=self._request_timeout_ms, in_flight_max=IN_FLIGHT_MAX, idle_max_ms=-1
        )
        return ConnectionPool(self._network, self._clock, self._entropy, settings, client_id, self._handshake)

    def put_node(self, pool: ConnectionPool, broker_id: int) -> None:
        """Give the pool the current address of a live broker; raises ``ConnectionFailed`` for others."""
        broker = self._metadata_cache.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener_name)
        if endpoint is None:
            if broker_id in pool.node_ids():
                pool.remove_node(broker_id)
            reason = "is not alive" if broker is None else f"has no listener {self._listener_name}"
            raise ConnectionFailed(f"broker {broker_id} {reason}")
        pool.put_node(broker_id, endpoint.host, endpoint.port)

    def remove_dead(self, pool: ConnectionPool) -> None:
        for broker_id in set(pool.node_ids()) - self._metadata_cache.brokers.keys():
            pool.remove_node(broker_id)

    async def send(
        self, pool: ConnectionPool, broker_id: int, request: Any, timeout_ms: int, version_max: int | None
    ) -> Any:
        """Send a request; connecting and waiting for the response share one timeout."""
        self.put_node(pool, broker_id)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimedOut(f"not sent within {timeout_ms} ms", broker=pool.name(broker_id))
            response = pool.send(broker_id, request, left_ms, version_max=version_max)
            if response is not None:
                return await response
            await pool.ready(broker_id, left_ms)

    def controller_id(self) -> int:
        controller_id = self._metadata_cache.controller_id
        if controller_id == NO_CONTROLLER:
            raise ConnectionFailed("the controller is not known yet")
        return controller_id


class InterBrokerRequests:
    """``BrokerRequests`` of one broker."""

    def __init__(
        self,
        broker_id: int,
        listener_name: str,
        metadata_cache: MetadataCache,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        *,
        request_timeout_ms: int,
        handshake: Handshake | None = None,
    ) -> None:
        """``request_timeout_ms`` bounds the setup of a connection; each request has its own timeout."""
        self.call_local: LocalCall | None = None
        """Set once this broker can handle requests."""
        self._peers = _Peers(
            broker_id, listener_name, metadata_cache, network, clock, entropy, request_timeout_ms, handshake
        )
        self._pool = self._peers.open_pool(f"broker-{broker_id}")
        self._channels: dict[RemoteChannel, None] = {}

    async def send(
        self, broker_id: int, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        if broker_id == self._peers.broker_id:
            return await self._call(request, timeout_ms, version_max)
        self._peers.remove_dead(self._pool)
        return await self._peers.send(self._pool, broker_id, request, timeout_ms, version_max)

    async def send_to_controller(
        self, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        return await self.send(self._peers.controller_id(), request, timeout_ms, version_max=version_max)

    def open_channel(self, broker_id: int, name: str) -> LocalChannel | RemoteChannel:
        if broker_id == self._peers.broker_id:
            return LocalChannel(self)
        if len(self._channels) >= CHANNELS_MAX:
            raise RuntimeError(f"at most {CHANNELS_MAX} channels may be open")
        channel = RemoteChannel(self._peers, broker_id, name, self._remove_channel)
        self._channels[channel] = None
        return channel

    def _remove_channel(self, channel: RemoteChannel) -> None:
        self._channels.pop(channel, None)

    async def close(self) -> None:
        """Close all connections; requests in flight fail with ``ConnectionFailed``."""
        await self._pool.close(_closed())
        await asyncio.gather(*(channel.close() for channel in list(self._channels)))

    async def _call(self, request: Any, timeout_ms: int, version_max: int | None) -> Any:
        if self.call_local is None:
            raise ConnectionFailed("this broker does not handle requests yet")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.call_local(request, version_max=version_max)
        except TimeoutError:
            raise TimedOut(f"no response to {type(request).__name__} within {timeout_ms} ms") from None


class LocalChannel:
    """``BrokerChannel`` to this broker itself."""

    def __init__(self, requests: InterBrokerRequests) -> None:
        self._requests = requests
        self._is_closed = False

    async def send(self, request: Any, timeout_ms: int, *, version_max: int | None = None) -> Any:
        if self._is_closed:
            raise _closed()
        return await self._requests._call(request, timeout_ms, version_max)

    async def close(self) -> None:
        self._is_closed = True


class RemoteChannel:
    """``BrokerChannel`` with a connection of its own."""

    def __init__(self, peers: _Peers, broker_id: int, name: str, on_closed: Any) -> None:
        self._peers = peers
        self._broker_id = broker_id
        self._pool = peers.open_pool(name)
        self._on_closed = on_closed

    async def send(self, request: Any, timeout_ms: int, *, version_max: int | None = None) -> Any:
        return await self._peers.send(self._pool, self._broker_id, request, timeout_ms, version_max)

    async def close(self) -> None:
        self._on_closed(self)
        await self._pool.close(_closed())


def _closed() -> ConnectionFailed:
    return ConnectionFailed("the connection was closed by this broker")
