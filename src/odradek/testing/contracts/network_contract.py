"""Contract tests of the network port, to be subclassed once per implementation.

Fixtures: ``run_on_network`` runs a coroutine function on an event loop with a network whose hosts reach
each other as ``HOST``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.ports.files import FileSlice, FileSystem
from odradek.ports.network import Connection, ListeningSocket, Network, UnknownHost

HOST: Final = "127.0.0.1"
Scenario = Callable[[Network], Awaitable[None]]
RunOnNetwork = Callable[[Scenario], None]

_TIMEOUT_MS: Final = 5_000
_CHECKS_MAX: Final = 30_000
LARGE_BYTES: Final = 8 * 1024 * 1024
"""More than two socket buffers hold."""


class Collector:
    """A receiver that records bytes and events."""

    def __init__(self, buffer_bytes: int = 64 * 1024) -> None:
        self._buffer = bytearray(buffer_bytes)
        self.received = bytearray()
        self.drained = 0
        self.lost: list[str | None] = []

    def receive_buffer(self) -> memoryview:
        assert not self.lost
        return memoryview(self._buffer)

    def bytes_received(self, count: int) -> None:
        assert not self.lost
        assert 0 < count <= len(self._buffer)
        self.received += self._buffer[:count]

    def output_drained(self) -> None:
        assert not self.lost
        self.drained += 1

    def connection_lost(self, reason: str | None) -> None:
        self.lost.append(reason)


async def until(holds: Callable[[], bool], what: str = "the condition") -> None:
    """Wait until a condition holds; fail after a while."""
    for _ in range(_CHECKS_MAX):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{what} was not reached")


async def wait_until_quiet() -> None:
    """Let everything in flight arrive, to show that something does not happen."""
    for _ in range(30):
        await asyncio.sleep(0.002)


class ConnectionPair:
    """A connection between two collectors."""

    def __init__(self, near_buffer_bytes: int = 64 * 1024) -> None:
        self.dialled_side = Collector(near_buffer_bytes)
        self.accepted_side = Collector()
        self._accepted: Connection | None = None
        self._dialled: Connection | None = None
        self._socket: ListeningSocket | None = None

    @classmethod
    async def connect(cls, network: Network, near_buffer_bytes: int = 64 * 1024) -> ConnectionPair:
        pair = cls(near_buffer_bytes)
        pair._socket = await network.listen(HOST, 0, pair._accept)
        pair._dialled = await network.dial(HOST, pair._socket.port, lambda _: pair.dialled_side, _TIMEOUT_MS)
        await until(lambda: pair._accepted is not None, "an accepted connection")
        return pair

    def _accept(self, connection: Connection) -> Collector:
        self._accepted = connection
        return self.accepted_side

    @property
    def dialled(self) -> Connection:
        assert self._dialled is not None
        return self._dialled

    @property
    def accepted(self) -> Connection:
        assert self._accepted is not None
        return self._accepted

    @property
    def socket(self) -> ListeningSocket:
        assert self._socket is not None
        return self._socket

    def close(self) -> None:
        self.dialled.close()
        self.accepted.close()
        self.socket.close()


class ConnectionContract:
    """Bytes on a connection, and its end. Fixtures: ``run_on_network``; ``files`` and ``directory`` for file
    ranges."""

    def test_bytes_arrive_in_order_both_ways(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.send([b"one ", bytearray(b"two "), memoryview(b"three")])
            pair.dialled.send([b" four"])
            pair.accepted.send([b"back"])
            await until(
                lambda: (
                    pair.accepted_side.received == b"one two three four"
                    and pair.dialled_side.received == b"back"
                )
            )
            pair.close()

        run_on_network(scenario)

    def test_empty_parts_are_ignored(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.send([])
            pair.dialled.send([b"", b"x", b""])
            await until(lambda: pair.accepted_side.received == b"x")
            assert pair.dialled.queued_bytes == 0
            pair.close()

        run_on_network(scenario)

    def test_large_part_is_drained_once(self, run_on_network: RunOnNetwork) -> None:
        data = bytes(range(256)) * (LARGE_BYTES // 256)

        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.accepted.pause()
            pair.dialled.send([b"<", data, b">"])
            assert pair.dialled.queued_bytes > 0
            await wait_until_quiet()
            assert pair.dialled_side.drained == 0
            pair.accepted.resume()
            await until(lambda: len(pair.accepted_side.received) == len(data) + 2)
            assert pair.accepted_side.received == b"<" + data + b">"
            await until(lambda: pair.dialled_side.drained == 1)
            assert pair.dialled.queued_bytes == 0
            pair.close()

        run_on_network(scenario)

    def test_later_sends_keep_order_behind_queued_parts(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.accepted.pause()
            pair.dialled.send([bytes(LARGE_BYTES)])
            for number in range(200):
                pair.dialled.send([b"%03d" % number])
            pair.accepted.resume()
            await until(lambda: len(pair.accepted_side.received) == LARGE_BYTES + 600)
            assert pair.accepted_side.received[LARGE_BYTES:] == b"".join(
                b"%03d" % number for number in range(200)
            )
            pair.close()

        run_on_network(scenario)

    def test_file_ranges_are_sent_like_bytes(
        self, run_on_network: RunOnNetwork, files: FileSystem, directory: str
    ) -> None:
        content = bytes(range(251)) * 4000
        file = files.open(f"{directory}/log", create=True)
        file.append(content)

        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            small, large = FileSlice(file, 10, 20), FileSlice(file, 100, 900_000)
            pair.dialled.send([b"a", small, b"b", large, b"c", FileSlice(file, 5, 0)])
            expected = b"a" + content[10:30] + b"b" + content[100:900_100] + b"c"
            await until(lambda: len(pair.accepted_side.received) == len(expected))
            assert pair.accepted_side.received == expected
            pair.close()

        run_on_network(scenario)

    def test_range_beyond_end_of_file_closes_connection(
        self, run_on_network: RunOnNetwork, files: FileSystem, directory: str
    ) -> None:
        """The announced length cannot be sent, so nothing after it would be valid."""
        file = files.open(f"{directory}/log", create=True)
        file.append(bytes(50_000))
        run_on_network(lambda network: _send_unreadable(network, FileSlice(file, 0, 60_000)))
        run_on_network(lambda network: _send_unreadable(network, FileSlice(file, 49_990, 20)))
        run_on_network(lambda network: _send_unreadable(network, FileSlice(file, 70_000, 20)))

    def test_range_of_closed_file_closes_connection(
        self, run_on_network: RunOnNetwork, files: FileSystem, directory: str
    ) -> None:
        file = files.open(f"{directory}/log", create=True)
        file.append(bytes(50_000))
        file.close()
        run_on_network(lambda network: _send_unreadable(network, FileSlice(file, 0, 20)))
        run_on_network(lambda network: _send_unreadable(network, FileSlice(file, 0, 50_000)))

    def test_paused_receiver_gets_no_bytes(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.accepted.pause()
            pair.accepted.pause()
            pair.dialled.send([b"early"])
            await wait_until_quiet()
            assert not pair.accepted_side.received
            pair.accepted.resume()
            pair.accepted.resume()
            await until(lambda: pair.accepted_side.received == b"early")
            pair.close()

        run_on_network(scenario)

    def test_paused_receiver_can_send(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.accepted.pause()
            pair.accepted.send([b"answer"])
            await until(lambda: pair.dialled_side.received == b"answer")
            pair.close()

        run_on_network(scenario)

    def test_small_receive_buffer(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network, near_buffer_bytes=7)
            pair.accepted.send([bytes(range(200))])
            await until(lambda: pair.dialled_side.received == bytes(range(200)))
            pair.close()

        run_on_network(scenario)

    def test_close_notifies_both_ends_once(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.close()
            pair.dialled.close()
            pair.dialled.close(flush=True)
            await until(lambda: bool(pair.accepted_side.lost))
            pair.accepted.close()
            await wait_until_quiet()
            assert pair.dialled_side.lost == [None]
            assert pair.accepted_side.lost == [None]
            pair.socket.close()

        run_on_network(scenario)

    def test_bytes_sent_before_close_arrive(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.accepted.send([b"last words"])
            pair.accepted.close()
            await until(lambda: bool(pair.dialled_side.lost))
            assert pair.dialled_side.received == b"last words"
            pair.close()

        run_on_network(scenario)

    def test_flushing_close_sends_queued_bytes(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.pause()
            pair.accepted.send([bytes(LARGE_BYTES), b"end"])
            pair.accepted.close(flush=True)
            assert not pair.accepted_side.lost, "there is something to send yet"
            pair.accepted.send([b"too late"])
            pair.dialled.resume()
            await until(lambda: bool(pair.dialled_side.lost) and bool(pair.accepted_side.lost))
            assert len(pair.dialled_side.received) == LARGE_BYTES + 3
            assert pair.dialled_side.received[-3:] == b"end"
            assert pair.accepted_side.lost == [None]
            pair.close()

        run_on_network(scenario)

    def test_flushing_close_stops_reading(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.pause()
            pair.accepted.send([bytes(LARGE_BYTES)])
            pair.accepted.close(flush=True)
            pair.dialled.send([b"not read any more"])
            await wait_until_quiet()
            pair.accepted.resume()
            await wait_until_quiet()
            assert not pair.accepted_side.received
            pair.close()

        run_on_network(scenario)

    def test_close_without_flush_drops_queued_bytes(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.pause()
            pair.accepted.send([bytes(LARGE_BYTES)])
            pair.accepted.close()
            assert pair.accepted_side.lost == [None]
            assert pair.accepted.queued_bytes == 0
            pair.dialled.resume()
            await until(lambda: bool(pair.dialled_side.lost))
            assert len(pair.dialled_side.received) < LARGE_BYTES
            pair.close()

        run_on_network(scenario)

    def test_flushing_close_can_be_aborted(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.pause()
            pair.accepted.send([bytes(LARGE_BYTES)])
            pair.accepted.close(flush=True)
            await wait_until_quiet()
            assert not pair.accepted_side.lost
            pair.accepted.close()
            assert pair.accepted_side.lost == [None]
            pair.close()

        run_on_network(scenario)

    def test_send_after_close_is_ignored(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.dialled.close()
            pair.dialled.send([b"nobody hears this"])
            pair.dialled.pause()
            pair.dialled.resume()
            await until(lambda: bool(pair.accepted_side.lost))
            assert not pair.accepted_side.received
            pair.close()

        run_on_network(scenario)

    def test_close_with_unread_bytes_resets_peer(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.accepted.pause()
            pair.dialled.send([b"never read"])
            await wait_until_quiet()
            pair.accepted.close()
            await until(lambda: bool(pair.dialled_side.lost))
            assert len(pair.dialled_side.lost) == 1
            assert pair.dialled_side.lost[0] is not None
            pair.close()

        run_on_network(scenario)

    def test_receiver_may_close_in_callback(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            events: list[int] = []

            def close_at_once(count: int) -> None:
                events.append(count)
                pair.accepted.close()

            pair.accepted_side.bytes_received = close_at_once  # type: ignore[method-assign]
            pair.dialled.send([bytes(LARGE_BYTES)])
            await until(lambda: bool(pair.dialled_side.lost))
            assert len(events) == 1
            assert pair.accepted_side.lost == [None]
            pair.close()

        run_on_network(scenario)


class NetworkContract:
    """Listening and dialling. Fixture: ``run_on_network``."""

    def test_rejected_connection_is_closed(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            chunks: list[str] = []

            def refuse(connection: Connection) -> None:
                chunks.append(connection.peer_host)

            socket = await network.listen(HOST, 0, refuse)
            dialled_side = Collector()
            connection = await network.dial(HOST, socket.port, lambda _: dialled_side, _TIMEOUT_MS)
            await until(lambda: bool(dialled_side.lost))
            assert len(chunks) == 1
            connection.close()
            socket.close()

        run_on_network(scenario)

    def test_peer_addresses(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            assert pair.dialled.peer_host == HOST
            assert pair.dialled.peer == f"{HOST}:{pair.socket.port}"
            assert pair.accepted.peer.startswith(f"{pair.accepted.peer_host}:")
            pair.close()

        run_on_network(scenario)

    def test_dial_without_listener_is_refused(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            port = pair.socket.port
            pair.socket.close()
            pair.socket.close()
            await _expect_refusal(network, port)
            pair.accepted.send([b"those already here stay"])
            await until(lambda: pair.dialled_side.received == b"those already here stay")
            pair.close()

        run_on_network(scenario)

    def test_unknown_host_raises_unknown_host(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            for host in ("a" * 64, "two..dots"):
                await _expect_unknown(network, host)

        run_on_network(scenario)

    def test_address_in_use(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            try:
                second = await network.listen(HOST, pair.socket.port, lambda _: None)
            except OSError:
                pair.close()
                return
            second.close()
            raise AssertionError("a port was given out twice")

        run_on_network(scenario)

    def test_port_can_be_reused_after_close(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            pair = await ConnectionPair.connect(network)
            pair.socket.close()
            second_listener = await network.listen(HOST, pair.socket.port, lambda _: None)
            assert second_listener.port == pair.socket.port
            second_listener.close()
            pair.close()

        run_on_network(scenario)

    def test_paused_listener_accepts_later(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            accepted: list[Collector] = []

            def accept(connection: Connection) -> Collector:
                accepted.append(Collector())
                socket.pause()
                return accepted[-1]

            socket = await network.listen(HOST, 0, accept)
            # In tasks: over TLS, a dial is only complete once its connection is accepted.
            dials = [
                asyncio.ensure_future(network.dial(HOST, socket.port, lambda _: Collector(), _TIMEOUT_MS))
                for _ in range(3)
            ]
            for count in (1, 2):
                await until(lambda: bool(accepted))
                await wait_until_quiet()
                assert len(accepted) == count
                socket.resume()
            await until(lambda: len(accepted) == 3)
            dialled = await asyncio.gather(*dials)
            for connection in dialled:
                connection.send([b"late"])
            await until(lambda: all(collector.received == b"late" for collector in accepted))
            for connection in dialled:
                connection.close()
            socket.close()

        run_on_network(scenario)

    def test_paused_listener_can_be_closed(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(network: Network) -> None:
            socket = await network.listen(HOST, 0, lambda _: Collector())
            socket.pause()
            socket.pause()
            socket.close()
            socket.resume()
            await _expect_refusal(network, socket.port)

        run_on_network(scenario)


async def _send_unreadable(network: Network, part: FileSlice) -> None:
    pair = await ConnectionPair.connect(network)
    pair.dialled.send([b"head", part, b"tail"])
    pair.dialled.send([b"more"])
    await until(lambda: bool(pair.dialled_side.lost) and bool(pair.accepted_side.lost))
    assert pair.dialled_side.lost[0] is not None
    assert len(pair.dialled_side.lost) == 1
    assert b"more" not in pair.accepted_side.received
    assert b"tail" not in pair.accepted_side.received
    pair.close()


async def _expect_refusal(network: Network, port: int) -> None:
    try:
        await network.dial(HOST, port, lambda _: Collector(), _TIMEOUT_MS)
    except ConnectionRefusedError:
        return
    raise AssertionError("dial without a listener succeeded")


async def _expect_unknown(network: Network, host: str) -> None:
    try:
        await network.dial(host, 9092, lambda _: Collector(), _TIMEOUT_MS)
    except UnknownHost:
        return
    raise AssertionError(f"dial of {host} succeeded")
