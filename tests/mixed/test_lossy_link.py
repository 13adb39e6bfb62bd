"""The link loses the answers to some requests of one API, holds one request, and forwards all others."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from tests.mixed.harness.lossy_link import LossyLink
from tests.support.broker import free_port

LOST, KEPT = 56, 3
SECONDS_MAX = 10.0
SILENCE_SECONDS = 0.3
ANSWER_SECONDS = 0.05


def echo(server: socket.socket) -> None:
    """Answer each request on one connection with its correlation id, after a while."""
    connection, _ = server.accept()
    with connection:
        while head := connection.recv(4, socket.MSG_WAITALL):
            body = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
            time.sleep(ANSWER_SECONDS)
            connection.sendall(struct.pack(">i", 4) + body[4:8])


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=echo, args=(listening,))
        thread.start()
        yield listening
        thread.join(SECONDS_MAX)


def send(client: socket.socket, api_key: int, correlation_id: int, body: bytes = b"") -> None:
    client.sendall(struct.pack(">ihhi", 8 + len(body), api_key, 0, correlation_id) + body)


def receive(client: socket.socket) -> int:
    length, correlation_id = struct.unpack(">ii", client.recv(8, socket.MSG_WAITALL))
    assert length == 4
    return int(correlation_id)


def test_answers_to_some_requests_are_lost_and_the_connection_stays(server: socket.socket) -> None:
    port = free_port()
    with (
        LossyLink(port, server.getsockname()[1]) as link,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.settimeout(SECONDS_MAX)
        send(client, LOST, 1)
        assert receive(client) == 1
        link.lose_answers(LOST, b"topic")
        send(client, LOST, 2, b"a topic")
        send(client, KEPT, 3, b"a topic")
        send(client, LOST, 5, b"another")
        assert receive(client) == 3
        assert receive(client) == 5
        assert link.lost == 1
        link.lose_nothing()
        send(client, LOST, 4, b"a topic")
        assert receive(client) == 4
        client.settimeout(SILENCE_SECONDS)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_held_request_is_answered_after_its_release_without_a_client(server: socket.socket) -> None:
    port = free_port()
    with LossyLink(port, server.getsockname()[1]) as link:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(SECONDS_MAX)
            link.hold_request(LOST, b"topic")
            send(client, LOST, 1)
            assert receive(client) == 1
            send(client, LOST, 2, b"a topic")
            client.settimeout(SILENCE_SECONDS)
            with pytest.raises(TimeoutError):
                client.recv(1)
            assert link.is_holding
            assert not link.held_was_answered
        link.release()
        deadline = time.monotonic() + SECONDS_MAX
        while not link.held_was_answered:
            assert time.monotonic() < deadline, "the request must reach the server"
            time.sleep(SILENCE_SECONDS / 10)
