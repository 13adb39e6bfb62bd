"""The network port's contract, on real sockets and on lines in memory; and what only the latter can show."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from odradek.ports.network import Network
from odradek.system.files import RealFileSystem
from odradek.system.network import SocketNetwork
from odradek.system.transports import TransportNetwork
from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.testing.network import RESET, MemoryNetwork
from odradek.testing.network_contract import HOST, Collector, Line, NetworkContract, Play, Scenario, until


class _OnRealFiles(NetworkContract):
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
    def play(self) -> Play:
        return lambda scenario: asyncio.run(_as_coroutine(scenario(SocketNetwork())))


class TestSocketsOnUvloop(_OnRealFiles):
    @pytest.fixture
    def play(self) -> Play:
        return lambda scenario: uvloop.run(_as_coroutine(scenario(SocketNetwork())))


class TestTransports(_OnRealFiles):
    @pytest.fixture
    def play(self) -> Play:
        return lambda scenario: asyncio.run(_as_coroutine(scenario(TransportNetwork())))


class TestTransportsOnUvloop(_OnRealFiles):
    @pytest.fixture
    def play(self) -> Play:
        return lambda scenario: uvloop.run(_as_coroutine(scenario(TransportNetwork())))


class TestMemoryNetwork(NetworkContract):
    @pytest.fixture
    def files(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    @pytest.fixture
    def directory(self, files: MemoryFileSystem) -> str:
        files.make_directories("/data")
        return "/data"

    @pytest.fixture(params=[(0, False, 256 << 10), (7, True, 4 << 10)], ids=["plain", "slow-and-split"])
    def play(self, request: pytest.FixtureRequest) -> Play:
        delay_max_ms, splits, window_bytes = request.param

        def run(scenario: Scenario) -> None:
            network = MemoryNetwork(
                SeededEntropy(1), delay_max_ms=delay_max_ms, splits=splits, window_bytes=window_bytes
            )
            run_virtually(lambda: scenario(network.host(HOST)))

        return run


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def _in_memory(body: Callable[[MemoryNetwork, Network], Awaitable[None]], **how: int) -> None:
    network = MemoryNetwork(SeededEntropy(1), **how)
    run_virtually(lambda: body(network, network.host(HOST)))


def test_a_held_line_delivers_once_it_is_released() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        line = await Line.between(host)
        line.dialled.hold()
        line.dialled.send([b"waits"])
        await asyncio.sleep(3600)
        assert not line.far.received
        line.dialled.release()
        await until(lambda: line.far.received == b"waits")

    _in_memory(body)


def test_a_half_open_line_tells_the_other_end_nothing() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        line = await Line.between(host)
        line.dialled.mute()
        line.dialled.send([b"lost"])
        line.dialled.close()
        await asyncio.sleep(3600)
        assert not line.far.received
        assert not line.far.lost
        assert line.near.lost == [None]

    _in_memory(body)


def test_a_reset_line_tells_both_ends_why() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        line = await Line.between(host)
        line.dialled.send([b"on its way"])
        line.accepted.reset()
        assert line.near.lost == [RESET]
        assert line.far.lost == [RESET]
        assert not network.connections

    _in_memory(body)


def test_parted_hosts_cannot_reach_each_other_until_they_are_healed() -> None:
    async def body(network: MemoryNetwork, here: Network) -> None:
        there = network.host("there")
        far = Collector()
        socket = await there.listen("there", 0, lambda _: far)
        connection = await here.dial("there", socket.port, lambda _: Collector(), 1000)
        network.part(HOST, "there")
        connection.send([b"waits"])
        with pytest.raises(TimeoutError):
            await here.dial("there", socket.port, lambda _: Collector(), 1000)
        assert not far.received
        network.heal()
        await until(lambda: far.received == b"waits")

    _in_memory(body)


def test_a_host_that_dies_listens_no_more_and_its_peers_are_told() -> None:
    async def body(network: MemoryNetwork, host: Network) -> None:
        line = await Line.between(host)
        network.reset_all(HOST)
        assert line.near.lost == [RESET]
        with pytest.raises(ConnectionRefusedError):
            await host.dial(HOST, line.socket.port, lambda _: Collector(), 1000)

    _in_memory(body)


def test_the_same_seed_gives_the_same_pieces() -> None:
    def pieces(seed: int) -> list[int]:
        found: list[int] = []

        async def body() -> None:
            network = MemoryNetwork(SeededEntropy(seed), delay_max_ms=5, splits=True)
            line = await Line.between(network.host(HOST))
            keep = line.far.bytes_received

            def note(count: int) -> None:
                found.append(count)
                keep(count)

            line.far.bytes_received = note  # type: ignore[method-assign]
            line.dialled.send([bytes(5000)])
            await until(lambda: len(line.far.received) == 5000)

        run_virtually(body)
        return found

    assert pieces(3) == pieces(3)
    assert pieces(3) != pieces(4)
    assert len(pieces(3)) > 1
