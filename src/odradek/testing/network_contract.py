"""What every network must do: one suite, to be subclassed once per implementation.

Fixtures: ``play``, which runs a coroutine function on an event loop and gives it a network whose hosts reach
each other under ``HOST``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.ports.files import FileSlice, FileSystem
from odradek.ports.network import Connection, ListeningSocket, Network, UnknownHost

HOST: Final = "127.0.0.1"
Scenario = Callable[[Network], Awaitable[None]]
Play = Callable[[Scenario], None]

_TIMEOUT_MS: Final = 5_000
_LOOKS_MAX: Final = 30_000
LARGE_BYTES: Final = 8 * 1024 * 1024
"""More than any pair of sockets buffers."""


class Collector:
    """A receiver that keeps what it is told."""

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


async def until(holds: Callable[[], bool], what: str = "what was waited for") -> None:
    """Wait until something holds; fail if it does not."""
    for _ in range(_LOOKS_MAX):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{what} did not come")


async def settle() -> None:
    """Let everything arrive that is on its way: for showing that something does not happen."""
    for _ in range(30):
        await asyncio.sleep(0.002)


class Line:
    """A connection between two collectors, with both ends at hand."""

    def __init__(self, near_buffer_bytes: int = 64 * 1024) -> None:
        self.near = Collector(near_buffer_bytes)
        self.far = Collector()
        self._accepted: Connection | None = None
        self._dialled: Connection | None = None
        self._socket: ListeningSocket | None = None

    @classmethod
    async def between(cls, network: Network, near_buffer_bytes: int = 64 * 1024) -> Line:
        line = cls(near_buffer_bytes)
        line._socket = await network.listen(HOST, 0, line._accept)
        line._dialled = await network.dial(HOST, line._socket.port, lambda _: line.near, _TIMEOUT_MS)
        await until(lambda: line._accepted is not None, "an accepted connection")
        return line

    def _accept(self, connection: Connection) -> Collector:
        self._accepted = connection
        return self.far

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


class NetworkContract:
    """Fixtures: ``play`` as above; ``files`` and ``directory`` for parts that are ranges of files."""

    def test_bytes_arrive_in_order_both_ways(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.send([b"one ", bytearray(b"two "), memoryview(b"three")])
            line.dialled.send([b" four"])
            line.accepted.send([b"back"])
            await until(lambda: line.far.received == b"one two three four" and line.near.received == b"back")
            line.close()

        play(scenario)

    def test_empty_parts_and_empty_sends_send_nothing(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.send([])
            line.dialled.send([b"", b"x", b""])
            await until(lambda: line.far.received == b"x")
            assert line.dialled.queued_bytes == 0
            line.close()

        play(scenario)

    def test_a_large_part_arrives_whole_and_the_sender_is_told_when_it_has_left(self, play: Play) -> None:
        data = bytes(range(256)) * (LARGE_BYTES // 256)

        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.accepted.pause()
            line.dialled.send([b"<", data, b">"])
            assert line.dialled.queued_bytes > 0
            await settle()
            assert line.near.drained == 0
            line.accepted.resume()
            await until(lambda: len(line.far.received) == len(data) + 2)
            assert line.far.received == b"<" + data + b">"
            await until(lambda: line.near.drained == 1)
            assert line.dialled.queued_bytes == 0
            line.close()

        play(scenario)

    def test_what_is_sent_while_earlier_parts_wait_comes_after_them(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.accepted.pause()
            line.dialled.send([bytes(LARGE_BYTES)])
            for number in range(200):
                line.dialled.send([b"%03d" % number])
            line.accepted.resume()
            await until(lambda: len(line.far.received) == LARGE_BYTES + 600)
            assert line.far.received[LARGE_BYTES:] == b"".join(b"%03d" % number for number in range(200))
            line.close()

        play(scenario)

    def test_ranges_of_files_are_sent_like_bytes(self, play: Play, files: FileSystem, directory: str) -> None:
        content = bytes(range(251)) * 4000
        file = files.open(f"{directory}/log", create=True)
        file.append(content)

        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            small, large = FileSlice(file, 10, 20), FileSlice(file, 100, 900_000)
            line.dialled.send([b"a", small, b"b", large, b"c", FileSlice(file, 5, 0)])
            expected = b"a" + content[10:30] + b"b" + content[100:900_100] + b"c"
            await until(lambda: len(line.far.received) == len(expected))
            assert line.far.received == expected
            line.close()

        play(scenario)

    def test_a_range_beyond_the_end_of_its_file_breaks_the_connection(
        self, play: Play, files: FileSystem, directory: str
    ) -> None:
        """What was promised in the frame's length cannot be sent: nothing after it would make sense."""
        file = files.open(f"{directory}/log", create=True)
        file.append(bytes(50_000))
        play(lambda network: _send_unreadable(network, FileSlice(file, 0, 60_000)))
        play(lambda network: _send_unreadable(network, FileSlice(file, 49_990, 20)))
        play(lambda network: _send_unreadable(network, FileSlice(file, 70_000, 20)))

    def test_a_range_of_a_file_that_was_closed_breaks_the_connection(
        self, play: Play, files: FileSystem, directory: str
    ) -> None:
        file = files.open(f"{directory}/log", create=True)
        file.append(bytes(50_000))
        file.close()
        play(lambda network: _send_unreadable(network, FileSlice(file, 0, 20)))
        play(lambda network: _send_unreadable(network, FileSlice(file, 0, 50_000)))

    def test_a_paused_receiver_is_told_nothing_until_it_resumes(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.accepted.pause()
            line.accepted.pause()
            line.dialled.send([b"early"])
            await settle()
            assert not line.far.received
            line.accepted.resume()
            line.accepted.resume()
            await until(lambda: line.far.received == b"early")
            line.close()

        play(scenario)

    def test_a_paused_receiver_can_still_send(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.accepted.pause()
            line.accepted.send([b"answer"])
            await until(lambda: line.near.received == b"answer")
            line.close()

        play(scenario)

    def test_a_small_buffer_is_filled_as_often_as_needed(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network, near_buffer_bytes=7)
            line.accepted.send([bytes(range(200))])
            await until(lambda: line.near.received == bytes(range(200)))
            line.close()

        play(scenario)

    def test_closing_ends_both_sides_once_and_without_a_reason(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.close()
            line.dialled.close()
            line.dialled.close(flush=True)
            await until(lambda: bool(line.far.lost))
            line.accepted.close()
            await settle()
            assert line.near.lost == [None]
            assert line.far.lost == [None]
            line.socket.close()

        play(scenario)

    def test_what_was_sent_before_a_close_still_arrives(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.accepted.send([b"last words"])
            line.accepted.close()
            await until(lambda: bool(line.near.lost))
            assert line.near.received == b"last words"
            line.close()

        play(scenario)

    def test_closing_with_flush_sends_all_that_is_queued_first(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.pause()
            line.accepted.send([bytes(LARGE_BYTES), b"end"])
            line.accepted.close(flush=True)
            assert not line.far.lost, "there is something to send yet"
            line.accepted.send([b"too late"])
            line.dialled.resume()
            await until(lambda: bool(line.near.lost) and bool(line.far.lost))
            assert len(line.near.received) == LARGE_BYTES + 3
            assert line.near.received[-3:] == b"end"
            assert line.far.lost == [None]
            line.close()

        play(scenario)

    def test_a_connection_that_flushes_before_it_closes_reads_no_more(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.pause()
            line.accepted.send([bytes(LARGE_BYTES)])
            line.accepted.close(flush=True)
            line.dialled.send([b"not read any more"])
            await settle()
            line.accepted.resume()
            await settle()
            assert not line.far.received
            line.close()

        play(scenario)

    def test_closing_without_flush_drops_what_is_queued(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.pause()
            line.accepted.send([bytes(LARGE_BYTES)])
            line.accepted.close()
            assert line.far.lost == [None]
            assert line.accepted.queued_bytes == 0
            line.dialled.resume()
            await until(lambda: bool(line.near.lost))
            assert len(line.near.received) < LARGE_BYTES
            line.close()

        play(scenario)

    def test_a_flush_that_never_ends_can_be_cut_short(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.pause()
            line.accepted.send([bytes(LARGE_BYTES)])
            line.accepted.close(flush=True)
            await settle()
            assert not line.far.lost
            line.accepted.close()
            assert line.far.lost == [None]
            line.close()

        play(scenario)

    def test_sending_after_a_close_is_passed_over(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.dialled.close()
            line.dialled.send([b"nobody hears this"])
            line.dialled.pause()
            line.dialled.resume()
            await until(lambda: bool(line.far.lost))
            assert not line.far.received
            line.close()

        play(scenario)

    def test_a_peer_that_closes_with_bytes_unread_shows_as_a_reset(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.accepted.pause()
            line.dialled.send([b"never read"])
            await settle()
            line.accepted.close()
            await until(lambda: bool(line.near.lost))
            assert len(line.near.lost) == 1
            assert line.near.lost[0] is not None
            line.close()

        play(scenario)

    def test_a_receiver_may_close_from_within_a_call(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            told: list[int] = []

            def close_at_once(count: int) -> None:
                told.append(count)
                line.accepted.close()

            line.far.bytes_received = close_at_once  # type: ignore[method-assign]
            line.dialled.send([bytes(LARGE_BYTES)])
            await until(lambda: bool(line.near.lost))
            assert len(told) == 1
            assert line.far.lost == [None]
            line.close()

        play(scenario)

    def test_a_refused_connection_ends_at_once(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            seen: list[str] = []

            def refuse(connection: Connection) -> None:
                seen.append(connection.peer_host)

            socket = await network.listen(HOST, 0, refuse)
            near = Collector()
            connection = await network.dial(HOST, socket.port, lambda _: near, _TIMEOUT_MS)
            await until(lambda: bool(near.lost))
            assert len(seen) == 1
            connection.close()
            socket.close()

        play(scenario)

    def test_ends_name_each_other(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            assert line.dialled.peer_host == HOST
            assert line.dialled.peer == f"{HOST}:{line.socket.port}"
            assert line.accepted.peer.startswith(f"{line.accepted.peer_host}:")
            line.close()

        play(scenario)

    def test_nobody_listening_refuses_a_dial(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            port = line.socket.port
            line.socket.close()
            line.socket.close()
            await _expect_refusal(network, port)
            line.accepted.send([b"those already here stay"])
            await until(lambda: line.near.received == b"those already here stay")
            line.close()

        play(scenario)

    def test_a_host_name_that_cannot_exist_is_told_apart(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            for host in ("a" * 64, "two..dots"):
                await _expect_unknown(network, host)

        play(scenario)

    def test_two_cannot_listen_at_one_place(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            try:
                second = await network.listen(HOST, line.socket.port, lambda _: None)
            except OSError:
                line.close()
                return
            second.close()
            raise AssertionError("a port was given out twice")

        play(scenario)

    def test_a_port_can_be_taken_again_after_it_was_let_go(self, play: Play) -> None:
        async def scenario(network: Network) -> None:
            line = await Line.between(network)
            line.socket.close()
            again = await network.listen(HOST, line.socket.port, lambda _: None)
            assert again.port == line.socket.port
            again.close()
            line.close()

        play(scenario)


async def _send_unreadable(network: Network, part: FileSlice) -> None:
    line = await Line.between(network)
    line.dialled.send([b"head", part, b"tail"])
    line.dialled.send([b"more"])
    await until(lambda: bool(line.near.lost) and bool(line.far.lost))
    assert line.near.lost[0] is not None
    assert len(line.near.lost) == 1
    assert b"more" not in line.far.received
    assert b"tail" not in line.far.received
    line.close()


async def _expect_refusal(network: Network, port: int) -> None:
    try:
        await network.dial(HOST, port, lambda _: Collector(), _TIMEOUT_MS)
    except ConnectionRefusedError:
        return
    raise AssertionError("a dial went through to nobody")


async def _expect_unknown(network: Network, host: str) -> None:
    try:
        await network.dial(host, 9092, lambda _: Collector(), _TIMEOUT_MS)
    except UnknownHost:
        return
    raise AssertionError(f"a dial to {host} went through")
