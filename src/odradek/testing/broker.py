"""A whole broker in memory: virtual time, files that crash honestly, a network without sockets.

``MemoryCluster`` keeps what outlives a broker's process: its files and the store. ``MemoryBroker`` is one
life of a broker on it, ended in order (``stop``) or not (``kill``, which loses what was not synced).
``Client`` speaks the protocol to it, one message at a time or pipelined.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from odradek.broker.broker import Broker, Environment
from odradek.ports.entropy import Entropy
from odradek.ports.files import Part
from odradek.ports.network import Connection
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
# Far beyond any wait that a broker grants, and no time at all on a virtual clock.
ANSWER_TIMEOUT_S: Final = 600
COMMIT_MAX_MS: Final = 2
"""A commit of the store takes up to this long, so that others run in between."""
_FRAME_BYTES_MAX: Final = 1 << 30
_DIAL_TIMEOUT_MS: Final = 10_000


class ConnectionEnded(Exception):
    """The broker, or the network, ended a connection where an answer was expected."""


class Client:
    """One connection to a broker. Answers are given in the order of requests."""

    def __init__(self, client_id: str | None = "client") -> None:
        self.lost: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._wire = ClientConnection(_FRAME_BYTES_MAX, client_id)
        self._waiting: deque[asyncio.Future[Response]] = deque()
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

    # What the network tells.

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        for response in self._wire.received(count):
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(response)

    def output_drained(self) -> None:
        """Nothing waits for that."""

    def connection_lost(self, reason: str | None) -> None:
        assert not self.lost.done(), "a connection is lost once"
        self.lost.set_result(reason)
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(ConnectionEnded(reason or "closed"))
                answer.exception()  # whoever gave up waiting for it need not hear of it

    # What tests ask.

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        """Send a request and give the decoded answer."""
        return await self.begin(api_key, version, message)

    def begin(self, api_key: int, version: int, message: Any) -> asyncio.Task[Any]:
        """Send a request now; the answer is there when the task is done."""
        answer = self.send_body(
            api_key, version, parts_encoder(API_BY_KEY[api_key].request, version)(message)
        )
        return asyncio.get_running_loop().create_task(_decoded(answer))

    def send_body(self, api_key: int, version: int, body: list[Part]) -> asyncio.Future[Response]:
        """Send a request whose body is bytes already; give its answer undecoded."""
        _, parts = self._wire.request(api_key, version, body)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        if self.lost.done():
            answer.set_exception(ConnectionEnded("the connection was lost before"))
        else:
            self.connection.send(parts)
        return answer

    def tell(self, api_key: int, version: int, message: Any) -> None:
        """Send a request that gets no answer (acks=0)."""
        body = parts_encoder(API_BY_KEY[api_key].request, version)(message)
        _, parts = self._wire.request(api_key, version, body, expects_response=False)
        self.connection.send(parts)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.connection.send([data])

    def close(self) -> None:
        self.connection.close()


async def _decoded(answer: asyncio.Future[Response]) -> Any:
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        response = await answer
    decode = decoder(API_BY_KEY[response.api_key].response, response.api_version)
    message, end = decode(response.frame, response.body_position)
    assert end == len(response.frame), "an answer has bytes that its schema does not know"
    return message


class _Session:
    """The store of one broker's life: closing it ends the session, and the store goes on."""

    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self._ensemble = ensemble
        self.store: EmbeddedStore | None = None

    @property
    def defers_writes(self) -> bool:
        return self._ensemble.defers_writes

    @defers_writes.setter
    def defers_writes(self, defers: bool) -> None:
        self._ensemble.defers_writes = defers

    def connect(self) -> EmbeddedStore:
        self.store = self._ensemble.connect()
        return self.store

    async def close(self) -> None:
        if self.store is not None:
            await self.store.close()

    async def expire(self) -> None:
        if self.store is not None:
            await self._ensemble.expire(self.store.session_id)


class _Ensemble(EmbeddedEnsemble):
    """A store that takes its time to commit, and outlives the processes that write to it."""

    def __init__(self, clock: VirtualClock, entropy: Entropy) -> None:
        self._outside = contextvars.copy_context()
        self._delays = entropy
        self.watching = self._outside.copy()
        """Where watchers are called: part of the process that runs now."""
        super().__init__(MEMORY, clock, call_soon=self._call_watcher, offload=self._commit_later)

    def _enqueue(self, waiting: Any) -> asyncio.Future[list[OpResult]]:
        return self._outside.copy().run(super()._enqueue, waiting)

    def _call_watcher(self, callback: Callable[[], None]) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(callback, context=self.watching)

    async def _commit_later(self, work: Callable[[], None]) -> None:
        await asyncio.sleep(self._delays.below(COMMIT_MAX_MS + 1) / 1000)
        work()


class MemoryBroker:
    """One life of a broker. ``broker`` is the real one."""

    def __init__(self, cluster: MemoryCluster, given: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._process = Process(BROKER_HOST)
        self._session = _Session(cluster.ensemble)
        environment = Environment(
            cluster.clock,
            cluster.entropy,
            cluster.files,
            cluster.network.host(BROKER_HOST),
            lambda: BROKER_HOST,
            self._open_store,
            cluster.workers,
        )
        self.broker = Broker(given, environment)

    def _open_store(self, path: str) -> _Session:
        """The one store of the cluster, and a file that tells where it is."""
        if not self._cluster.files.exists(path):
            self._cluster.files.write_whole(path, b"")
        return self._session

    async def start(self) -> None:
        self._cluster.ensemble.watching = self._process.context
        await self._process.run(self.broker.start())

    async def stop(self) -> None:
        await self._process.run(self.broker.stop())
        await self._process.kill()

    async def kill(self) -> None:
        """Lose power: connections break, what was not synced may be lost, nothing is said to anyone."""
        self._cluster.network.reset_all(BROKER_HOST)
        self._cluster.files.crash(self._cluster.entropy)
        await self._process.kill()
        await self._session.expire()

    async def connect(self, client_id: str | None = "client", host: str = CLIENT_HOST) -> Client:
        port = self.broker.endpoints[0].port
        return await Client.connect(self._cluster.network.host(host), port, client_id=client_id)


class MemoryCluster:
    """Files, network and store of one broker after another. Made on a running virtual loop."""

    def __init__(self, seed: int = 0, *, delay_max_ms: int = 0, splits: bool = False) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.entropy = SeededEntropy(seed)
        self.files = MemoryFileSystem(self.clock.wall_ms)
        self.network = MemoryNetwork(SeededEntropy(seed), delay_max_ms=delay_max_ms, splits=splits)
        self.ensemble = _Ensemble(self.clock, SeededEntropy(seed))
        self.workers = InlineWorkers()
        self.files.make_directories(DIRECTORY)
        self.files.sync_dir("/")

    async def close(self) -> None:
        await self.ensemble.close()

    async def start(self, settings: Mapping[str, str] | None = None) -> MemoryBroker:
        """A broker on what the last one left."""
        given = {"log.dirs": DIRECTORY, "listeners": f"PLAINTEXT://{BROKER_HOST}:{PORT}", **(settings or {})}
        broker = MemoryBroker(self, given)
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
    """A cluster with its broker started, and stopped in order at the end unless it was killed."""
    cluster = MemoryCluster(seed, delay_max_ms=delay_max_ms, splits=splits)
    try:
        broker = await cluster.start(settings)
        try:
            yield cluster, broker
        finally:
            await broker.stop()
    finally:
        await cluster.close()
