"""The network contract on real sockets and in memory, and the faults of the network in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop
from tests.support.tls import server_options, tls_network

from odradek.ports.files import FileSystem
from odradek.ports.network import Network
from odradek.system.files import RealFileSystem
from odradek.system.network import SocketNetwork
from odradek.system.transports import TransportNetwork
from odradek.testing.clock import run_virtually
from odradek.testing.contracts.network_contract import (
    HOST,
    Collector,
    ConnectionContract,
    ConnectionPair,
    NetworkContract,
    RunOnNetwork,
    Scenario,
    until,
)
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.network import RESET, MemoryConnection, MemoryNetwork


class _OnRealFiles(ConnectionContract, NetworkContract):
    @pytest.fixture
    def files(self) -> Iterator[RealFileSystem]:
        files = RealFileSystem(threads_max=1)
        yield files
        files.close()

    @pytest.fixture
    def directory(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestSockets(_OnRealFiles):
    @pytest.fixture
    def run_on_network(self) -> RunOnNetwork:
        return lambda scenario: asyncio.run(_as_coroutine(scenario(SocketNetwork())))


class TestSocketsOnUvloop(_OnRealFiles):
    @pytest.fixture
    def run_on_network(self) -> RunOnNetwork:
        return lambda scenario: uvloop.run(_as_coroutine(scenario(SocketNetwork())))


class TestTransports(_OnRealFiles):
    @pytest.fixture
    def run_on_network(self) -> RunOnNetwork:
        return lambda scenario: asyncio.run(_as_coroutine(scenario(TransportNetwork())))


class TestTransportsOnUvloop(_OnRealFiles):
    @pytest.fixture
    def run_on_network(self) -> RunOnNetwork:
        return lambda scenario: uvloop.run(_as_coroutine(scenario(TransportNetwork())))


class TestMemoryNetwork(ConnectionContract, NetworkContract):
    @pytest.fixture
    def files(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    @pytest.fixture
    def directory(self, files: MemoryFileSystem) -> str:
        files.make_directories("/data")
        return "/data"

    @pytest.fixture(params=[(0, False, 256 << 10), (7, True, 4 << 10)], ids=["plain", "slow-and-split"])
    def run_on_network(self, request: pytest.FixtureRequest) -> RunOnNetwork:
        delay_max_ms, splits, window_bytes = request.param

        def run(scenario: Scenario) -> None:
            network = MemoryNetwork(
                SeededEntropy(1), delay_max_ms=delay_max_ms, splits=splits, window_bytes=window_bytes
            )
            run_virtually(lambda: scenario(network.host(HOST)))

        return run


class _TlsContract(ConnectionContract, NetworkContract):
    def test_rejected_connection_is_closed(self, run_on_network: RunOnNetwork) -> None:
        """The handshake of a rejected connection fails."""

        async def scenario(network: Network) -> None:
            socket = await network.listen(HOST, 0, lambda _: None)
            with pytest.raises(OSError, match="TLS handshake failed: the peer closed the connection"):
                await network.dial(HOST, socket.port, lambda _: Collector(), 5000)
            socket.close()

        run_on_network(scenario)

    def test_bytes_sent_before_close_arrive(self, run_on_network: RunOnNetwork) -> None:
        """Once the handshake is complete: bytes sent before are queued, and a close drops these."""

        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.send([b"complete"])
            await until(lambda: pair.accepted_side.received == b"complete")
            pair.accepted.send([b"last words"])
            pair.accepted.close()
            await until(lambda: bool(pair.dialled_side.lost))
            assert pair.dialled_side.received == b"last words"
            assert pair.dialled_side.lost == [None]
            pair.close()

        run_on_network(scenario)


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def tls_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _encrypted(network: Network, version: str, files: FileSystem | None = None) -> Network:
    return tls_network(
        network,
        server_options(protocols=(version,)),
        offload_read=None if files is None else files.offload_read,
    )


class TestTlsOnSockets(_TlsContract, _OnRealFiles):
    @pytest.fixture
    def run_on_network(self, tls_version: str, files: RealFileSystem) -> RunOnNetwork:
        return lambda scenario: asyncio.run(
            _as_coroutine(scenario(_encrypted(SocketNetwork(), tls_version, files)))
        )


class TestTlsOnTransports(_TlsContract, _OnRealFiles):
    @pytest.fixture
    def run_on_network(self, tls_version: str) -> RunOnNetwork:
        return lambda scenario: asyncio.run(
            _as_coroutine(scenario(_encrypted(TransportNetwork(), tls_version)))
        )


class TestTlsOnTransportsOnUvloop(_TlsContract, _OnRealFiles):
    @pytest.fixture
    def run_on_network(self, tls_version: str) -> RunOnNetwork:
        return lambda scenario: uvloop.run(
            _as_coroutine(scenario(_encrypted(TransportNetwork(), tls_version)))
        )


class TestTlsOnMemoryNetwork(_TlsContract, TestMemoryNetwork):
    @pytest.fixture(params=[(0, False, 256 << 10), (7, True, 16 << 10)], ids=["plain", "slow-and-split"])
    def run_on_network(
        self, request: pytest.FixtureRequest, tls_version: str, files: MemoryFileSystem
    ) -> RunOnNetwork:
        delay_max_ms, splits, window_bytes = request.param

        def run(scenario: Scenario) -> None:
            network = MemoryNetwork(
                SeededEntropy(1), delay_max_ms=delay_max_ms, splits=splits, window_bytes=window_bytes
            )
            run_virtually(lambda: scenario(_encrypted(network.host(HOST), tls_version, files)))

        return run


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def _in_memory(body: Callable[[MemoryNetwork, Network], Awaitable[None]], **how: Any) -> None:
    network = MemoryNetwork(SeededEntropy(1), **how)
    run_virtually(lambda: body(network, network.host(HOST)))


def test_held_connection_delivers_after_release() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(host)
        dialled = cast(MemoryConnection, pair.dialled)
        dialled.hold()
        pair.dialled.send([b"waits"])
        await asyncio.sleep(3600)
        assert not pair.accepted_side.received
        dialled.release()
        await until(lambda: pair.accepted_side.received == b"waits")

    _in_memory(body)


def test_muted_connection_delivers_nothing() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(host)
        cast(MemoryConnection, pair.dialled).mute()
        pair.dialled.send([b"lost"])
        pair.dialled.close()
        await asyncio.sleep(3600)
        assert not pair.accepted_side.received
        assert not pair.accepted_side.lost
        assert pair.dialled_side.lost == [None]

    _in_memory(body)


def test_reset_notifies_both_ends() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(host)
        pair.dialled.send([b"on its way"])
        cast(MemoryConnection, pair.accepted).reset()
        assert pair.dialled_side.lost == [RESET]
        assert pair.accepted_side.lost == [RESET]
        assert not network.connections

    _in_memory(body)


def test_partitioned_hosts_are_unreachable_until_healed() -> None:
    async def body(network: MemoryNetwork, here: Network) -> None:
        there = network.host("there")
        accepted_side = Collector()
        socket = await there.listen("there", 0, lambda _: accepted_side)
        connection = await here.dial("there", socket.port, lambda _: Collector(), 1000)
        network.partition(HOST, "there")
        connection.send([b"waits"])
        with pytest.raises(TimeoutError):
            await here.dial("there", socket.port, lambda _: Collector(), 1000)
        assert not accepted_side.received
        network.heal()
        await until(lambda: accepted_side.received == b"waits")

    _in_memory(body)


def test_dead_host_closes_listeners_and_resets_peers() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        pair = await ConnectionPair.connect(host)
        network.reset_all(HOST)
        assert pair.dialled_side.lost == [RESET]
        with pytest.raises(ConnectionRefusedError):
            await host.dial(HOST, pair.socket.port, lambda _: Collector(), 1000)

    _in_memory(body)


def test_same_seed_gives_same_chunks() -> None:
    def pieces(seed: int) -> list[int]:
        counts: list[int] = []

        async def body() -> None:
            network = MemoryNetwork(SeededEntropy(seed), delay_max_ms=5, splits=True)
            pair = await ConnectionPair.connect(network.host(HOST))
            keep = pair.accepted_side.bytes_received

            def note(count: int) -> None:
                counts.append(count)
                keep(count)

            pair.accepted_side.bytes_received = note  # type: ignore[method-assign]
            pair.dialled.send([bytes(5000)])
            await until(lambda: len(pair.accepted_side.received) == 5000)

        run_virtually(body)
        return counts

    assert pieces(3) == pieces(3)
    assert pieces(3) != pieces(4)
    assert len(pieces(3)) > 1
