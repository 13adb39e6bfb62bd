"""Immediate acknowledgement on sockets when one of our objects is unpickled."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator

import pytest

from odradek.spark.delta.sink.writer import BatchWriter as TableBatchWriter
from odradek.spark.delta.sink.writer import StreamWriter as TableStreamWriter
from odradek.spark.delta.source.reader import TableReader
from odradek.spark.delta.source.stream_reader import TableStreamReader
from odradek.spark.sink.transactional_writer import TransactionalBatchWriter, TransactionalStreamWriter
from odradek.spark.sink.writer import BatchWriter, StreamWriter
from odradek.spark.source.reader import TopicReader
from odradek.spark.source.stream_reader import TopicStreamReader
from odradek.spark.worker import quick_ack
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle

on_linux = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="requires TCP_QUICKACK (Linux)")

PICKLED = (
    *(TopicReader, TopicStreamReader, TableReader, TableStreamReader),
    *(BatchWriter, StreamWriter, TransactionalBatchWriter, TransactionalStreamWriter),
    *(TableBatchWriter, TableStreamWriter),
)


class Message(QuickAckOnUnpickle):
    def __init__(self, text: str) -> None:
        self.text = text


@pytest.fixture
def delayed_socket() -> Iterator[socket.socket]:
    """Open a connection with delayed acknowledgements."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
        server.accept()[0],
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert not is_quick_ack(connection)
        yield connection


def is_quick_ack(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def unpickle() -> None:
    assert pickle.loads(pickle.dumps(Message("odradek"))).text == "odradek"


@on_linux
def test_socket_acknowledges_when_a_function_is_unpickled(delayed_socket: socket.socket) -> None:
    unpickle()
    assert is_quick_ack(delayed_socket)


@on_linux
def test_other_descriptors_are_unchanged(delayed_socket: socket.socket) -> None:
    # Other kinds of descriptors are skipped, and none is left open.
    read_fd, write_fd = os.pipe()
    first, second = socket.socketpair()
    before = sorted(os.listdir("/proc/self/fd"))
    try:
        unpickle()
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert os.get_blocking(delayed_socket.fileno())
        assert is_quick_ack(delayed_socket)
    finally:
        os.close(read_fd)
        os.close(write_fd)
        first.close()
        second.close()


@on_linux
def test_sockets_stay_blocking_with_a_default_timeout(delayed_socket: socket.socket) -> None:
    socket.setdefaulttimeout(5)
    try:
        unpickle()
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(delayed_socket.fileno())


@on_linux
def test_unpickling_works_without_proc(
    delayed_socket: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_ack, "_DESCRIPTORS", "/nowhere/fd")
    unpickle()
    assert not is_quick_ack(delayed_socket)


@pytest.mark.parametrize(
    "kind", PICKLED, ids=lambda kind: f"{kind.__module__.rpartition('.')[2]}-{kind.__name__}"
)
def test_all_readers_and_writers_acknowledge(kind: type) -> None:
    assert kind.__mro__[1] is QuickAckOnUnpickle
