"""Sockets that answer at once when an object of ours comes through them."""

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

on_linux = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be told so")

SENT = (
    *(TopicReader, TopicStreamReader, TableReader, TableStreamReader),
    *(BatchWriter, StreamWriter, TransactionalBatchWriter, TransactionalStreamWriter),
    *(TableBatchWriter, TableStreamWriter),
)


class Letter(QuickAckOnUnpickle):
    def __init__(self, words: str) -> None:
        self.words = words


@pytest.fixture
def lazy_socket() -> Iterator[socket.socket]:
    """A connection that waits with what it has to acknowledge."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as found,
        server.accept()[0],
    ):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert not answers_at_once(found)
        yield found


def answers_at_once(found: socket.socket) -> bool:
    return bool(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def arrive() -> None:
    assert pickle.loads(pickle.dumps(Letter("odradek"))).words == "odradek"


@on_linux
def test_a_socket_answers_at_once_when_a_function_has_come(lazy_socket: socket.socket) -> None:
    arrive()
    assert answers_at_once(lazy_socket)


@on_linux
def test_nothing_else_of_the_process_is_changed(lazy_socket: socket.socket) -> None:
    # Other kinds of descriptors are passed by, and none is left open.
    reading, writing = os.pipe()
    one, other = socket.socketpair()
    before = sorted(os.listdir("/proc/self/fd"))
    try:
        arrive()
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert os.get_blocking(lazy_socket.fileno())
        assert answers_at_once(lazy_socket)
    finally:
        os.close(reading)
        os.close(writing)
        one.close()
        other.close()


@on_linux
def test_sockets_still_wait_where_the_process_has_a_timeout_for_all(lazy_socket: socket.socket) -> None:
    socket.setdefaulttimeout(5)
    try:
        arrive()
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(lazy_socket.fileno())


@on_linux
def test_objects_arrive_where_descriptors_cannot_be_listed(
    lazy_socket: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_ack, "_DESCRIPTORS", "/nowhere/fd")
    arrive()
    assert not answers_at_once(lazy_socket)


@pytest.mark.parametrize(
    "kind", SENT, ids=lambda kind: f"{kind.__module__.rpartition('.')[2]}-{kind.__name__}"
)
def test_all_that_spark_sends_to_workers_does_so(kind: type) -> None:
    assert kind.__mro__[1] is QuickAckOnUnpickle
