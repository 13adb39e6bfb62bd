"""Listening sockets: accept limits, exhausted file descriptors, backlog."""

import asyncio
import errno
import gc
import socket
import weakref
from typing import Any

import pytest

from odradek.system.network import ACCEPT_PAUSE_S, ACCEPTS_PER_ITERATION, SocketListener, SocketNetwork


class FakeLoop:
    def __init__(self):
        self.reader: Any = None
        self.later: list[Any] = []

    def add_reader(self, fd, callback):
        self.reader = callback

    def run_reader(self):
        self.reader()

    def remove_reader(self, fd):
        self.reader = None

    def call_later(self, delay_s, callback):
        self.later.append((delay_s, callback))


class FakeSocket:
    """Accepts what ``arrivals`` gives: a socket, or an error to raise."""

    def __init__(self, arrivals=()):
        self.arrivals = list(arrivals)
        self.closed = False

    def getsockname(self):
        return ("127.0.0.1", 9092)

    def fileno(self):
        return 7

    def accept(self):
        if not self.arrivals:
            raise BlockingIOError
        arrival = self.arrivals.pop(0)
        if isinstance(arrival, OSError):
            raise arrival
        return arrival, ("10.0.0.1", 1)

    def setblocking(self, on):
        assert not on

    def setsockopt(self, *option):
        pass

    def close(self):
        self.closed = True


def _no_reads(work):
    raise AssertionError("a listener reads no files")


def make_listener(*arrivals):
    loop: Any = FakeLoop()
    socket: Any = FakeSocket(arrivals)
    accepted: list[Any] = []
    return loop, accepted, SocketListener(loop, socket, accepted.append, _no_reads)


def test_all_pending_connections_are_accepted():
    loop, accepted, _ = make_listener(FakeSocket(), FakeSocket())
    loop.reader()
    assert len(accepted) == 2


def test_rejected_connection_is_closed():
    arrival = FakeSocket()
    loop, accepted, _ = make_listener(arrival)
    loop.reader()
    assert len(accepted) == 1, "accept was called and returned no receiver"
    assert arrival.closed


def test_accepts_per_loop_iteration_are_limited():
    loop, accepted, _ = make_listener(*(FakeSocket() for _ in range(ACCEPTS_PER_ITERATION + 5)))
    loop.reader()
    assert len(accepted) == ACCEPTS_PER_ITERATION
    loop.reader()
    assert len(accepted) == ACCEPTS_PER_ITERATION + 5


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_accepting_pauses_when_out_of_file_descriptors(code):
    loop, accepted, _ = make_listener(OSError(code, "none left"), FakeSocket())
    loop.reader()
    assert loop.reader is None, "a ready socket would be tried over and over"
    [(delay_s, wake)] = loop.later
    assert delay_s == ACCEPT_PAUSE_S
    wake()
    loop.run_reader()
    assert len(accepted) == 1


def test_listener_closed_during_a_pause_stays_closed():
    loop, _, listener = make_listener(OSError(errno.EMFILE, "none left"))
    loop.reader()
    listener.close()
    loop.later[0][1]()
    assert loop.reader is None


def test_aborted_connection_is_ignored():
    loop, accepted, _ = make_listener(ConnectionAbortedError())
    loop.reader()
    assert accepted == []
    assert loop.reader is not None


def test_other_accept_errors_are_raised():
    loop, _, _ = make_listener(OSError(errno.EBADF, "what"))
    with pytest.raises(OSError, match="what"):
        loop.reader()


class Holder:
    """A receiver that holds its connection, as a session does."""

    def __init__(self, connection):
        self.connection = connection
        self.buffer = bytearray(1024)
        self.lost = asyncio.get_running_loop().create_future()

    def receive_buffer(self):
        return memoryview(self.buffer)

    def bytes_received(self, count):
        pass

    def output_drained(self):
        pass

    def connection_lost(self, reason):
        self.lost.set_result(reason)


def test_closed_connection_and_receiver_are_freed():
    """They hold each other while they live; what the receiver has must not wait for the garbage collector."""

    async def scenario():
        held = []

        def accept(connection):
            holder = Holder(connection)
            held.append((weakref.ref(holder), holder.lost))
            return holder

        listener = await SocketNetwork().listen("127.0.0.1", 0, accept)
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            while not held:
                await asyncio.sleep(0.001)
            client.sendall(b"part of a request")
        [(holder, lost)] = held
        await lost
        await asyncio.sleep(0.01)
        assert holder() is None
        listener.close()

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_backlog_has_a_minimum():
    """A full backlog drops packets, and clients retry only after a second."""

    async def scenario():
        listener = await SocketNetwork(backlog=50).listen("127.0.0.1", 0, lambda connection: None)
        clients = []
        # The loop accepts none of them meanwhile.
        for _ in range(300):
            clients.append(socket.create_connection(("127.0.0.1", listener.port), timeout=0.9))
        for client in clients:
            client.close()
        listener.close()

    asyncio.run(scenario())
