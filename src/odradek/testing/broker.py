"""A broker in memory: virtual time, crash-faithful files, a simulated network.

``MemoryCluster`` holds what outlives a broker process: the files of each host and the store. ``MemoryBroker``
is one broker process, ended by a clean shutdown (``stop``) or a power failure (``kill``, which loses unsynced
writes). ``Client`` sends protocol requests to it, one at a time or pipelined.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from odradek.broker.broker import Broker
from odradek.broker.environment import Environment
from odradek.ports.entropy import Entropy
from odradek.ports.files import Part
from odradek.ports.network import Connection
from odradek.store.controller_election import elect
from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble, EmbeddedStore
from odradek.store.port import OpResult
from odradek.testing.clock import Process, VirtualClock
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.network import MemoryHost, MemoryNetwork
from odradek.testing.workers import InlineWorkers
from odradek.wire.apis import API_BY_KEY
from odradek.wire.client_connection import ClientConnection, Response
from odradek.wire.message_codecs import decoder, parts_encoder

BROKER_HOST: Final = "broker"
CLIENT_HOST: Final = "client"
PORT: Final = 9092
DIRECTORY: Final = "/data"
STORE_ADDRESS: Final = "zookeeper:2181"
"""``zookeeper.connect`` of brokers that share the store."""
# Longer than any wait of a broker; takes no real time on a virtual clock.
RESPONSE_TIMEOUT_S: Final = 600
COMMIT_MAX_MS: Final = 2
"""Longest duration of a store commit, so that other tasks run in between."""
_FRAME_BYTES_MAX: Final = 1 << 30
_DIAL_TIMEOUT_MS: Final = 10_000


class ConnectionEnded(Exception):
    """Raised when a connection ends before a response."""


class Client:
    """One connection to a broker. Responses are returned in request order."""

    def __init__(self, client_id: str | None = "client") -> None:
        self.lost: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._wire = ClientConnection(_FRAME_BYTES_MAX, client_id)
        self._pending_responses: deque[asyncio.Future[Response]] = deque()
        self._connection: Connection | None = None

    @classmethod
    async def connect(
        cls, host: MemoryHost, port: int = PORT, to: str = BROKER_HOST, client_id: str | None = "client"
    ) -> Client:
        client = cls(client_id)
        client._connection = await host.dial(to, port, lambda _: client, _DIAL_TIMEOUT_MS)
        return client

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    # Callbacks of the network.

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        for response in self._wire.received(count):
            response_future = self._pending_responses.popleft()
            if not response_future.done():
                response_future.set_result(response)

    def output_drained(self) -> None:
        """Do nothing."""

    def connection_lost(self, reason: str | None) -> None:
        assert not self.lost.done(), "a connection is lost only once"
        self.lost.set_result(reason)
        for response_future in self._pending_responses:
            if not response_future.done():
                response_future.set_exception(ConnectionEnded(reason or "closed"))
                response_future.exception()  # mark as retrieved: the caller may have given up

    # Requests.

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        """Send a request and return the decoded response."""
        return await self.send(api_key, version, message)

    def send(self, api_key: int, version: int, message: Any) -> asyncio.Task[Any]:
        """Send a request now; return a task with the response."""
        response_future = self.send_body(
            api_key, version, parts_encoder(API_BY_KEY[api_key].request, version)(message)
        )
        return asyncio.get_running_loop().create_task(_decode_response(response_future))

    def send_body(self, api_key: int, version: int, body: list[Part]) -> asyncio.Future[Response]:
        """Send a request with an encoded body; return the undecoded response."""
        _, parts = self._wire.request(api_key, version, body)
        response_future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._pending_responses.append(response_future)
        if self.lost.done():
            response_future.set_exception(ConnectionEnded("the connection is closed"))
        else:
            self.connection.send(parts)
        return response_future

    def send_oneway(self, api_key: int, version: int, message: Any) -> None:
        """Send a request that has no response (acks=0)."""
        body = parts_encoder(API_BY_KEY[api_key].request, version)(message)
        _, parts = self._wire.request(api_key, version, body, expects_response=False)
        self.connection.send(parts)

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes."""
        self.connection.send([data])

    def close(self) -> None:
        self.connection.close()


async def _decode_response(response_future: asyncio.Future[Response]) -> Any:
    async with asyncio.timeout(RESPONSE_TIMEOUT_S):
        response = await response_future
    decode = decoder(API_BY_KEY[response.api_key].response, response.api_version)
    message, end = decode(response.frame, response.body_position)
    assert end == len(response.frame), "response has trailing bytes"
    return message


class _StoreSession:
    """Store sessions of one broker process: closing ends the session, not the store.

    Watchers and expiry callbacks run in the context of the process, and not at all once it is killed.
    """

    def __init__(self, ensemble: EmbeddedEnsemble, process: Process) -> None:
        self._ensemble = ensemble
        self._process = process
        self.store: EmbeddedStore | None = None

    @property
    def defers_writes(self) -> bool:
        return self._ensemble.defers_writes

    @defers_writes.setter
    def defers_writes(self, defers: bool) -> None:
        self._ensemble.defers_writes = defers

    async def open_session(self) -> EmbeddedStore:
        self.store = self._ensemble.connect(self._call_soon)
        return self.store

    def _call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(callback, context=self._process.context)

    async def close(self) -> None:
        if self.store is not None:
            await self.store.close()

    async def expire(self) -> None:
        """Expire the session; the broker process is told."""
        if self.store is not None:
            await self._ensemble.expire(self.store.session_id)

    def abandon(self) -> None:
        """Stop all callbacks: the process is dead. The session lives on until it expires."""
        if self.store is not None:
            self.store.stop()


class DelayedEnsemble(EmbeddedEnsemble):
    """A store with random commit delays that outlives the processes using it."""

    def __init__(self, clock: VirtualClock, entropy: Entropy) -> None:
        self._base_context = contextvars.copy_context()
        self._entropy = entropy
        super().__init__(MEMORY, clock, offload=self._commit_later)

    def _enqueue(self, waiting: Any) -> asyncio.Future[list[OpResult]]:
        return self._base_context.copy().run(super()._enqueue, waiting)

    async def _commit_later(self, work: Callable[[], None]) -> None:
        await asyncio.sleep(self._entropy.below(COMMIT_MAX_MS + 1) / 1000)
        work()


class MemoryBroker:
    """One broker process on a host with files of its own. ``broker`` is the real ``Broker``."""

    def __init__(self, cluster: MemoryCluster, configs: Mapping[str, str], host: str = BROKER_HOST) -> None:
        self.host = host
        self.files = cluster.files_of(host)
        self._cluster = cluster
        self._process = Process(host)
        self._session = _StoreSession(cluster.ensemble, self._process)
        self._is_store_shared = bool(configs.get("zookeeper.connect"))
        environment = Environment(
            cluster.clock,
            cluster.entropy,
            self.files,
            cluster.network.host(host),
            lambda: host,
            self._open_store,
            cluster.workers,
        )
        self.broker = Broker(configs, environment)

    def _open_store(self, path: str) -> _StoreSession:
        """Return the cluster's store; create the file of an embedded one."""
        if not self._is_store_shared and not self.files.exists(path):
            self.files.write_whole(path, b"")
        return self._session

    async def start(self) -> None:
        await self._process.run(self.broker.start())

    async def stop(self) -> None:
        """Stop cleanly. Does nothing after a kill."""
        if self._process.is_dead:
            return
        await self._process.run(self.broker.stop())
        await self._process.kill()

    async def kill(self, *, expires_session: bool = True) -> None:
        """Simulate a power failure: connections break, unsynced writes may be lost.

        Without ``expires_session`` the registration stays until ``expire_session``.
        """
        self._cluster.network.reset_all(self.host)
        self.files.crash(self._cluster.entropy)
        await self._process.kill()
        self._session.abandon()
        if expires_session:
            await self._session.expire()

    async def expire_session(self) -> None:
        """Expire the store session, as ZooKeeper does without heartbeats."""
        await self._session.expire()

    def pause(self) -> None:
        """Stop the process, as with SIGSTOP; its session lives on until it expires."""
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    async def connect(self, client_id: str | None = "client", host: str = CLIENT_HOST) -> Client:
        port = self.broker.endpoints[0].port
        return await Client.connect(self._cluster.network.host(host), port, to=self.host, client_id=client_id)


class MemoryCluster:
    """Files, network and store of broker processes. Created on a running virtual loop.

    By default there is one broker at a time, on an embedded store. Brokers started with a ``broker_id`` share
    the store as they would share ZooKeeper.
    """

    def __init__(self, seed: int = 0, *, delay_max_ms: int = 0, splits: bool = False) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.entropy = SeededEntropy(seed)
        self.network = MemoryNetwork(SeededEntropy(seed), delay_max_ms=delay_max_ms, splits=splits)
        self.ensemble = DelayedEnsemble(self.clock, SeededEntropy(seed))
        self.workers = InlineWorkers()
        self._files: dict[str, MemoryFileSystem] = {}

    @property
    def files(self) -> MemoryFileSystem:
        """Files of the default host; the next broker started there runs on those that a test sets."""
        return self.files_of(BROKER_HOST)

    @files.setter
    def files(self, files: MemoryFileSystem) -> None:
        self._files[BROKER_HOST] = files

    def files_of(self, host: str) -> MemoryFileSystem:
        """Return the files of a host; they outlive its broker processes."""
        files = self._files.get(host)
        if files is None:
            files = self._files[host] = MemoryFileSystem(self.clock.wall_ms)
            files.make_directories(DIRECTORY)
            files.sync_dir("/")
        return files

    async def close(self) -> None:
        await self.ensemble.close()

    async def hold_controller(self, broker_id: int) -> None:
        """Be elected as controller for a test that plays its part: no broker stands against it."""
        fence = await elect(self.ensemble.connect(), broker_id, self.clock.wall_ms())
        assert fence is not None, "the cluster has a controller"

    async def start(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        broker_id: int | None = None,
        host: str | None = None,
    ) -> MemoryBroker:
        """Start a broker on the state left by the last one on this host, by default ``broker-<id>``."""
        shared = (
            {} if broker_id is None else {"broker.id": str(broker_id), "zookeeper.connect": STORE_ADDRESS}
        )
        if host is None:
            host = BROKER_HOST if broker_id is None else f"{BROKER_HOST}-{broker_id}"
        configs = {
            "log.dirs": DIRECTORY,
            "listeners": f"PLAINTEXT://{host}:{PORT}",
            **shared,
            **(settings or {}),
        }
        broker = MemoryBroker(self, configs, host)
        try:
            await broker.start()
        except BaseException:
            await broker.stop()
            raise
        return broker


@asynccontextmanager
async def running_broker(
    settings: Mapping[str, str] | None = None, *, seed: int = 0, delay_max_ms: int = 0, splits: bool = False
) -> AsyncIterator[tuple[MemoryCluster, MemoryBroker]]:
    """Run a cluster with one broker, which is stopped at the end unless it was killed."""
    cluster = MemoryCluster(seed, delay_max_ms=delay_max_ms, splits=splits)
    try:
        broker = await cluster.start(settings)
        try:
            yield cluster, broker
        finally:
            await broker.stop()
    finally:
        await cluster.close()
