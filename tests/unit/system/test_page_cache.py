"""Sending of ranges of files that are not in the page cache.

Pages are evicted with ``posix_fadvise``. Where that has no effect (tmpfs), the tests expect everything to be
cached. Connections are tested with files whose cached range is set by the test.
"""

import asyncio
import ctypes
import errno
import os
import threading
from pathlib import Path

import pytest

from odradek.ports.files import FileSlice
from odradek.system.files import PROBE_STEP_BYTES, RealFileSystem
from odradek.system.network import SocketNetwork
from odradek.system.socket_connection import CHUNK_BYTES

TIMEOUT_S = 20


def can_evict(directory: Path) -> bool:
    """Return whether pages of files here can be evicted, and the system reports it."""
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
    assert file.is_cached(0, len(content)) is not can_evict(tmp_path)
    file.page_in(0, len(content))
    assert file.is_cached(0, len(content))
    assert file.read_at(0, len(content)) == content


def test_evicted_range_is_not_read_until_paged_in(tmp_path):
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    content = os.urandom(64 * 4096)
    file.append(content)
    evict(file)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # disables read-ahead
    file.read_at(0, 4096)
    assert file.read_cached(0, 4096) == content[:4096]
    if can_evict(tmp_path):
        assert file.read_cached(0, 8192) is None, "only its first page is cached"
        assert file.read_cached(32 * 4096, 4096) is None
    file.page_in(0, len(content))
    assert file.read_cached(0, len(content)) == content
    assert file.read_cached(len(content) - 5, 4096) == content[-5:]


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_uncached_probe_step_is_found_anywhere(tmp_path, step):
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(os.urandom(4 * PROBE_STEP_BYTES))
    evict(file)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # disables read-ahead
    for other in {0, 1, 2, 3} - {step}:
        file.read_at(other * PROBE_STEP_BYTES, PROBE_STEP_BYTES)
    assert file.is_cached(0, 4 * PROBE_STEP_BYTES) is not can_evict(tmp_path)


@pytest.mark.sources
def test_unknown_residency_counts_as_cached(tmp_path, monkeypatch):
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(b"abc")

    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr("os.preadv", unsupported)
    assert file.is_cached(0, 3)
    assert file.read_cached(0, 3) == b"abc"
    monkeypatch.setattr("odradek.system.files._NOWAIT", None)
    monkeypatch.delattr("os.preadv")
    assert file.is_cached(0, 3)
    assert file.read_cached(0, 3) == b"abc"


@pytest.mark.parametrize(("code", "calls"), [(errno.ENOSYS, 1), (errno.EPERM, 1), (errno.EAGAIN, 2)])
def test_cached_open_is_not_tried_again_where_it_is_not_supported(monkeypatch, code, calls):
    tried = []

    def fail(*arguments):
        tried.append(arguments)
        ctypes.set_errno(code)
        return -1

    monkeypatch.setattr("odradek.system.cached_open._load_system_call", lambda: fail)
    monkeypatch.setattr("odradek.system.cached_open._NUMBER_IS_KNOWN", True)
    files = RealFileSystem()
    assert files.open_cached("/etc/hostname") is None
    assert files.open_cached("/etc/hostname") is None
    assert len(tried) == calls


def test_reads_use_separate_threads(tmp_path):
    async def run():
        files = RealFileSystem(threads_max=1, read_threads_max=1)
        may_continue = threading.Event()
        reading = asyncio.ensure_future(files.offload_read(lambda: may_continue.wait(TIMEOUT_S)))
        await files.offload(lambda: None)  # would never complete behind the read
        assert not reading.done()
        may_continue.set()
        assert await reading
        files.close()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


# Connections.


class UncachedFile:
    """A real file whose cached range is set by the test; reading beyond it would block the loop."""

    def __init__(self, path, content):
        path.write_bytes(content)
        self._file = RealFileSystem().open(str(path), writable=False)
        self.path = str(path)
        self.cached_until = 0
        self.paged_in = []
        self.may_page_in = threading.Event()
        self.may_page_in.set()
        self.failure = None

    def size(self):
        return self._file.size()

    def fileno(self):
        return self._file.fileno()

    def read_at(self, position, size_bytes):
        assert position + size_bytes <= self.cached_until, "the event loop would wait for the disk"
        return self._file.read_at(position, size_bytes)

    def is_cached(self, position, size_bytes):
        return position + size_bytes <= self.cached_until

    def read_cached(self, position, size_bytes):
        return self.read_at(position, size_bytes) if self.is_cached(position, size_bytes) else None

    def page_in(self, position, size_bytes):
        assert threading.current_thread() is not threading.main_thread()
        assert self.may_page_in.wait(TIMEOUT_S)
        if self.failure is not None:
            raise self.failure
        self.paged_in.append((position, size_bytes))
        self.cached_until = max(self.cached_until, position + size_bytes)


class Peer:
    """Collects received bytes."""

    def __init__(self, connection=None):
        self.connection = connection
        self.received = bytearray()
        self.is_taken = False
        self.is_drained = asyncio.Event()
        self.is_closed = asyncio.Event()
        self.reason = None
        self.changed = asyncio.Event()
        self._buffer = bytearray(1 << 16)

    def receive_buffer(self):
        return memoryview(self._buffer)

    def bytes_received(self, count):
        self.received += self._buffer[:count]
        self.changed.set()

    def output_drained(self):
        self.is_drained.set()

    def connection_lost(self, reason):
        self.reason = reason
        self.is_closed.set()
        self.changed.set()

    async def wait_for(self, size_bytes):
        while len(self.received) < size_bytes and not self.is_closed.is_set():
            self.changed.clear()
            await self.changed.wait()
        return bytes(self.received[:size_bytes])


class SenderFixture:
    """A sender and its peers, over real sockets."""

    def __init__(self, network, port, senders):
        self.network = network
        self.port = port
        self.senders = senders

    async def dial(self):
        peer = []

        def attach(connection):
            peer.append(Peer(connection))
            return peer[0]

        await self.network.dial("127.0.0.1", self.port, attach, 5000)
        while len(self.senders) < 1 or self.senders[-1].is_taken:
            await asyncio.sleep(0.001)
        self.senders[-1].is_taken = True
        return self.senders[-1], peer[0]


def run_over_sockets(scenario):
    async def run():
        files = RealFileSystem(read_threads_max=2)
        network = SocketNetwork(offload_read=files.offload_read)
        senders = []

        def accept(connection):
            senders.append(Peer(connection))
            return senders[-1]

        listener = await network.listen("127.0.0.1", 0, accept)
        try:
            await scenario(SenderFixture(network, listener.port, senders))
        finally:
            for sender in senders:
                sender.connection.close()
            listener.close()
            files.close()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


@pytest.fixture
def uncached(tmp_path):
    return UncachedFile(tmp_path / "cold", os.urandom(2 * CHUNK_BYTES + 5000))


def test_uncached_range_is_sent_in_order(uncached):
    async def scenario(fixture):
        sender, peer = await fixture.dial()
        size = uncached.size()
        sender.connection.send([b"head", FileSlice(uncached, 0, size), b"tail"])
        sender.connection.send([b"next"])
        expected = b"head" + Path(uncached.path).read_bytes() + b"tailnext"
        assert await peer.wait_for(len(expected)) == expected
        assert uncached.paged_in == [(0, CHUNK_BYTES), (CHUNK_BYTES, CHUNK_BYTES), (2 * CHUNK_BYTES, 5000)]
        await sender.is_drained.wait()
        assert sender.connection.queued_bytes == 0

    run_over_sockets(scenario)


def test_small_uncached_range_waits_for_the_disk(uncached):
    async def scenario(fixture):
        sender, peer = await fixture.dial()
        uncached.may_page_in.clear()
        sender.connection.send([b"head", FileSlice(uncached, 100, 50)])
        sender.connection.send([b"next"])
        assert await peer.wait_for(4) == b"head"
        assert len(peer.received) == 4
        uncached.may_page_in.set()
        expected = b"head" + Path(uncached.path).read_bytes()[100:150] + b"next"
        assert await peer.wait_for(len(expected)) == expected
        assert uncached.paged_in == [(100, 50)]

    run_over_sockets(scenario)


def test_other_connections_are_served_during_a_page_in(uncached):
    async def scenario(fixture):
        uncached.may_page_in.clear()
        waiting, waiting_peer = await fixture.dial()
        waiting.connection.send([FileSlice(uncached, 0, 1000)])
        other, other_peer = await fixture.dial()
        for number in range(20):
            other.connection.send([b"%03d" % number])
        assert await other_peer.wait_for(60) == b"".join(b"%03d" % number for number in range(20))
        assert not waiting_peer.received
        uncached.may_page_in.set()
        assert len(await waiting_peer.wait_for(1000)) == 1000

    run_over_sockets(scenario)


def test_recent_and_cached_ranges_are_not_paged_in(uncached):
    async def scenario(fixture):
        sender, peer = await fixture.dial()
        sender.connection.send([FileSlice(uncached, 0, uncached.size(), is_recent=True)])
        assert await peer.wait_for(uncached.size()) == Path(uncached.path).read_bytes()
        uncached.cached_until = 1000
        sender.connection.send([FileSlice(uncached, 0, 1000)])
        await peer.wait_for(uncached.size() + 1000)
        assert uncached.paged_in == []

    run_over_sockets(scenario)


def test_paged_in_chunk_is_sent_even_if_evicted_again(uncached, monkeypatch):
    async def scenario(fixture):
        sender, peer = await fixture.dial()
        monkeypatch.setattr(uncached, "is_cached", lambda *_: False)
        sender.connection.send([FileSlice(uncached, 0, uncached.size())])
        assert await peer.wait_for(uncached.size()) == Path(uncached.path).read_bytes()

    run_over_sockets(scenario)


def test_connection_closed_during_page_in_releases_the_file(uncached):
    async def scenario(fixture):
        uncached.may_page_in.clear()
        sender, peer = await fixture.dial()
        sender.connection.send([FileSlice(uncached, 0, uncached.size())])
        await asyncio.sleep(0.01)
        sender.connection.close()
        await peer.is_closed.wait()
        assert sender.connection.queued_bytes == 0
        uncached.may_page_in.set()
        await asyncio.sleep(0.01)
        assert not peer.received

    run_over_sockets(scenario)


def test_flushing_close_waits_for_page_in(uncached):
    async def scenario(fixture):
        uncached.may_page_in.clear()
        sender, peer = await fixture.dial()
        sender.connection.send([FileSlice(uncached, 0, uncached.size())])
        sender.connection.close(flush=True)
        await asyncio.sleep(0.01)
        assert not peer.is_closed.is_set()
        uncached.may_page_in.set()
        await peer.is_closed.wait()
        assert bytes(peer.received) == Path(uncached.path).read_bytes()

    run_over_sockets(scenario)


def test_failed_page_in_closes_the_connection(uncached):
    async def scenario(fixture):
        sender, peer = await fixture.dial()
        uncached.failure = OSError(errno.EIO, os.strerror(errno.EIO))
        sender.connection.send([FileSlice(uncached, 0, 1000)])
        await sender.is_closed.wait()
        assert sender.reason == "Input/output error"
        await peer.is_closed.wait()

    run_over_sockets(scenario)
