"""Ranges of files that are not in memory: found, brought by a thread, and waited for by nobody else.

Pages are evicted with ``posix_fadvise``. Where that is without effect (tmpfs is memory) there is no cold
range to be found, and the tests of the page cache ask for just that: everything is at hand. What connections
do is shown with files that are told what is in memory.
"""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from odradek.ports.files import FileSlice
from odradek.system.files import PROBE_STEP_BYTES, RealFileSystem
from odradek.system.network import PIECE_BYTES, SocketNetwork

TIMEOUT_S = 20


def knows_cold_ranges(directory: Path) -> bool:
    """Whether pages of files here can be evicted, and the system tells."""
    path = directory / "trial"
    path.write_bytes(bytes(8192))
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def evict(file):
    file.sync()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# The page cache.


def test_evicted_range_is_not_cached_until_paged_in(tmp_path):
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    content = os.urandom(4 * PROBE_STEP_BYTES)
    file.append(content)
    evict(file)
    assert file.is_cached(0, len(content)) is not knows_cold_ranges(tmp_path)
    file.page_in(0, len(content))
    assert file.is_cached(0, len(content))
    assert file.read_at(0, len(content)) == content


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_uncached_probe_step_is_found_anywhere(tmp_path, step):
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(os.urandom(4 * PROBE_STEP_BYTES))
    evict(file)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # nothing is read beside what is asked for
    for other in {0, 1, 2, 3} - {step}:
        file.read_at(other * PROBE_STEP_BYTES, PROBE_STEP_BYTES)
    assert file.is_cached(0, 4 * PROBE_STEP_BYTES) is not knows_cold_ranges(tmp_path)


def test_unknown_residency_counts_as_cached(tmp_path, monkeypatch):
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(b"abc")

    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr("os.preadv", refuse)
    assert file.is_cached(0, 3)
    monkeypatch.setattr("odradek.system.files._NOWAIT", None)
    monkeypatch.delattr("os.preadv")
    assert file.is_cached(0, 3)


def test_reads_use_separate_threads(tmp_path):
    async def run():
        files = RealFileSystem(threads_max=1, read_threads_max=1)
        go_on = threading.Event()
        reading = files.offload_read(lambda: go_on.wait(TIMEOUT_S))
        await files.offload(lambda: None)  # would never come to an end behind the read
        assert not reading.done()
        go_on.set()
        assert await reading
        files.close()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


# Connections.


class ColdFile:
    """A real file of which a test says what is in memory; whoever sends what is not would have waited."""

    def __init__(self, path, content):
        path.write_bytes(content)
        self._file = RealFileSystem().open(str(path), writable=False)
        self.path = str(path)
        self.warm_until = 0
        self.brought = []
        self.may_bring = threading.Event()
        self.may_bring.set()
        self.failure = None

    def size(self):
        return self._file.size()

    def fileno(self):
        return self._file.fileno()

    def read_at(self, position, size_bytes):
        assert position + size_bytes <= self.warm_until, "the loop waits for the disk"
        return self._file.read_at(position, size_bytes)

    def is_cached(self, position, size_bytes):
        return position + size_bytes <= self.warm_until

    def page_in(self, position, size_bytes):
        assert threading.current_thread() is not threading.main_thread()
        assert self.may_bring.wait(TIMEOUT_S)
        if self.failure is not None:
            raise self.failure
        self.brought.append((position, size_bytes))
        self.warm_until = max(self.warm_until, position + size_bytes)


class Peer:
    """Collects what it is sent."""

    def __init__(self, connection=None):
        self.connection = connection
        self.received = bytearray()
        self.is_drained = asyncio.Event()
        self.is_over = asyncio.Event()
        self.reason = None
        self.news = asyncio.Event()
        self._buffer = bytearray(1 << 16)

    def receive_buffer(self):
        return memoryview(self._buffer)

    def bytes_received(self, count):
        self.received += self._buffer[:count]
        self.news.set()

    def output_drained(self):
        self.is_drained.set()

    def connection_lost(self, reason):
        self.reason = reason
        self.is_over.set()
        self.news.set()

    async def has(self, size_bytes):
        while len(self.received) < size_bytes and not self.is_over.is_set():
            self.news.clear()
            await self.news.wait()
        return bytes(self.received[:size_bytes])


class Line:
    """A sender and those that dialled it, over real sockets."""

    def __init__(self, network, port, senders):
        self.network = network
        self.port = port
        self.senders = senders

    async def dial(self):
        far = []

        def attach(connection):
            far.append(Peer(connection))
            return far[0]

        await self.network.dial("127.0.0.1", self.port, attach, 5000)
        while len(self.senders) < 1 or self.senders[-1].is_taken:
            await asyncio.sleep(0.001)
        self.senders[-1].is_taken = True
        return self.senders[-1], far[0]


def over_sockets(scenario):
    async def run():
        files = RealFileSystem(read_threads_max=2)
        network = SocketNetwork(offload_read=files.offload_read)
        senders = []

        def accept(connection):
            senders.append(Peer(connection))
            senders[-1].is_taken = False
            return senders[-1]

        listener = await network.listen("127.0.0.1", 0, accept)
        try:
            await scenario(Line(network, listener.port, senders))
        finally:
            for one in senders:
                one.connection.close()
            listener.close()
            files.close()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


@pytest.fixture
def cold(tmp_path):
    return ColdFile(tmp_path / "cold", os.urandom(2 * PIECE_BYTES + 5000))


def test_uncached_range_is_sent_in_order(cold):
    async def scenario(line):
        sender, far = await line.dial()
        size = cold.size()
        sender.connection.send([b"head", FileSlice(cold, 0, size), b"tail"])
        sender.connection.send([b"next"])
        expected = b"head" + Path(cold.path).read_bytes() + b"tailnext"
        assert await far.has(len(expected)) == expected
        assert cold.brought == [(0, PIECE_BYTES), (PIECE_BYTES, PIECE_BYTES), (2 * PIECE_BYTES, 5000)]
        await sender.is_drained.wait()
        assert sender.connection.queued_bytes == 0

    over_sockets(scenario)


def test_small_uncached_range_waits_for_the_disk(cold):
    async def scenario(line):
        sender, far = await line.dial()
        cold.may_bring.clear()
        sender.connection.send([b"head", FileSlice(cold, 100, 50)])
        sender.connection.send([b"next"])
        assert await far.has(4) == b"head"
        assert len(far.received) == 4
        cold.may_bring.set()
        expected = b"head" + Path(cold.path).read_bytes()[100:150] + b"next"
        assert await far.has(len(expected)) == expected
        assert cold.brought == [(100, 50)]

    over_sockets(scenario)


def test_other_connections_are_served_during_a_page_in(cold):
    async def scenario(line):
        cold.may_bring.clear()
        waiting, waiting_far = await line.dial()
        waiting.connection.send([FileSlice(cold, 0, 1000)])
        other, other_far = await line.dial()
        for number in range(20):
            other.connection.send([b"%03d" % number])
        assert await other_far.has(60) == b"".join(b"%03d" % number for number in range(20))
        assert not waiting_far.received
        cold.may_bring.set()
        assert len(await waiting_far.has(1000)) == 1000

    over_sockets(scenario)


def test_recent_and_cached_ranges_are_not_paged_in(cold):
    async def scenario(line):
        sender, far = await line.dial()
        sender.connection.send([FileSlice(cold, 0, cold.size(), is_recent=True)])
        assert await far.has(cold.size()) == Path(cold.path).read_bytes()
        cold.warm_until = 1000
        sender.connection.send([FileSlice(cold, 0, 1000)])
        await far.has(cold.size() + 1000)
        assert cold.brought == []

    over_sockets(scenario)


def test_paged_in_chunk_is_sent_even_if_evicted_again(cold, monkeypatch):
    async def scenario(line):
        sender, far = await line.dial()
        monkeypatch.setattr(cold, "is_cached", lambda *_: False)
        sender.connection.send([FileSlice(cold, 0, cold.size())])
        assert await far.has(cold.size()) == Path(cold.path).read_bytes()

    over_sockets(scenario)


def test_connection_closed_during_page_in_releases_the_file(cold):
    async def scenario(line):
        cold.may_bring.clear()
        sender, far = await line.dial()
        sender.connection.send([FileSlice(cold, 0, cold.size())])
        await asyncio.sleep(0.01)
        sender.connection.close()
        await far.is_over.wait()
        assert sender.connection.queued_bytes == 0
        cold.may_bring.set()
        await asyncio.sleep(0.01)
        assert not far.received

    over_sockets(scenario)


def test_flushing_close_waits_for_page_in(cold):
    async def scenario(line):
        cold.may_bring.clear()
        sender, far = await line.dial()
        sender.connection.send([FileSlice(cold, 0, cold.size())])
        sender.connection.close(flush=True)
        await asyncio.sleep(0.01)
        assert not far.is_over.is_set()
        cold.may_bring.set()
        await far.is_over.wait()
        assert bytes(far.received) == Path(cold.path).read_bytes()

    over_sockets(scenario)


def test_failed_page_in_closes_the_connection(cold):
    async def scenario(line):
        sender, far = await line.dial()
        cold.failure = OSError(errno.EIO, os.strerror(errno.EIO))
        sender.connection.send([FileSlice(cold, 0, 1000)])
        await sender.is_over.wait()
        assert sender.reason == "Input/output error"
        await far.is_over.wait()

    over_sockets(scenario)
