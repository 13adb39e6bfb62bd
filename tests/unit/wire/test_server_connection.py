"""Server connections: requests are decoded in order and responses sent in request order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import LocalProtocolViolation, RemoteProtocolViolation
from odradek.ports.files import FileSlice, Part
from odradek.wire.headers import RequestHeader, encode_request_header
from odradek.wire.server_connection import JOIN_BYTES_MAX, RECEIVED_BYTES_MAX, Request, ServerConnection


def frame(correlation_id: int, api_key: int = 3, version: int = 1, body: bytes = b"body") -> bytes:
    head = encode_request_header(RequestHeader(api_key, version, correlation_id, "me"))
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def receive(connection: ServerConnection, data: bytes) -> list[Request]:
    connection.receive_buffer()[: len(data)] = data
    return connection.received(len(data))


def joined(parts: list[Part]) -> bytes:
    return b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)


def responses_in(raw: bytes) -> list[tuple[int, bytes]]:
    """Return correlation ids and bodies of responses without header tags."""
    responses = []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        responses.append((int.from_bytes(raw[4:8], "big"), raw[8 : 4 + size]))
        raw = raw[4 + size :]
    return responses


def test_request_has_header_and_body() -> None:
    connection = ServerConnection(1000)
    (request,) = receive(connection, frame(7, 3, 12, b"rest"))
    assert (request.api_key, request.api_version, request.correlation_id, request.client_id) == (
        3,
        12,
        7,
        "me",
    )
    assert bytes(request.frame[request.body_position :]) == b"rest"
    assert connection.in_flight == 1
    assert "correlation_id=7" in repr(request)


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)))
def test_responses_are_sent_in_request_order(order: list[int], silent: set[int]) -> None:
    connection = ServerConnection(1000)
    requests = receive(connection, b"".join(frame(n) for n in range(8)))
    sent = b""
    for done, index in enumerate(order):
        if index in silent:
            sent += joined(connection.skip_response(requests[index]))
        else:
            sent += joined(connection.respond(requests[index], [b"response %d" % index]))
        first_open = min(set(range(8)) - set(order[: done + 1]), default=8)
        assert connection.in_flight == 8 - first_open
        assert [number for number, _ in responses_in(sent)] == [
            n for n in range(first_open) if n not in silent
        ]
    assert responses_in(sent) == [(n, b"response %d" % n) for n in range(8) if n not in silent]


def test_response_header_has_tags_in_flexible_versions() -> None:
    connection = ServerConnection(1000)
    plain, flexible, versions = receive(connection, frame(1, 3, 8) + frame(2, 3, 9) + frame(3, 18, 3))
    assert joined(connection.respond(plain, [b"x"])) == b"\0\0\0\5" + b"\0\0\0\1" + b"x"
    assert joined(connection.respond(flexible, [b"x"])) == b"\0\0\0\6" + b"\0\0\0\2\0" + b"x"
    assert joined(connection.respond(versions, [b"x"])) == b"\0\0\0\5" + b"\0\0\0\3" + b"x"


class MemoryFile:
    def read_at(self, position: int, size_bytes: int) -> bytes:
        return bytes(range(256))[position : position + size_bytes]


def test_file_slices_count_in_the_size_and_are_not_copied() -> None:
    connection = ServerConnection(1000)
    (request,) = receive(connection, frame(1))
    piece = FileSlice(MemoryFile(), 10, 20)  # type: ignore[arg-type]
    parts = connection.respond(request, [b"head", piece, b"tail"])
    assert parts[1] is piece
    assert (
        joined(parts)
        == (4 + 4 + 20 + 4).to_bytes(4, "big") + b"\0\0\0\1head" + bytes(range(10, 30)) + b"tail"
    )


def test_only_a_small_first_part_is_joined_with_the_header() -> None:
    connection = ServerConnection(1000)
    small, large, view, empty = receive(connection, b"".join(frame(n) for n in range(4)))
    big, seen = bytes(JOIN_BYTES_MAX + 1), memoryview(b"seen")
    assert len(connection.respond(small, [bytes(JOIN_BYTES_MAX)])) == 1
    assert connection.respond(large, [big])[1] is big
    assert connection.respond(view, [seen])[1] is seen
    assert joined(connection.respond(empty, [])) == b"\0\0\0\4\0\0\0\3"


def test_request_can_only_be_completed_once() -> None:
    connection = ServerConnection(1000)
    first, second = receive(connection, frame(1) + frame(2))
    connection.respond(second, [b"x"])
    with pytest.raises(LocalProtocolViolation, match="once"):
        connection.skip_response(second)
    connection.respond(first, [b"x"])
    with pytest.raises(LocalProtocolViolation, match="once"):
        connection.respond(first, [b"x"])


def test_garbage_is_a_remote_protocol_violation() -> None:
    with pytest.raises(RemoteProtocolViolation):
        receive(ServerConnection(1000), b"\0\0\0\2hi")
    with pytest.raises(RemoteProtocolViolation):
        receive(ServerConnection(1000), b"GET / HTTP/1.1\r\n")


def test_frame_limit_can_be_raised() -> None:
    connection = ServerConnection(20)
    with pytest.raises(RemoteProtocolViolation, match="must be <= 20"):
        receive(connection, frame(1, body=bytes(100)))
    connection = ServerConnection(20)
    connection.frame_bytes_max = 1000
    assert connection.frame_bytes_max == 1000
    assert len(receive(connection, frame(1, body=bytes(100)))) == 1


def test_requests_before_a_violation_are_returned() -> None:
    good = frame(1)
    for bad in (b"\xff\xff\xff\xff", (2000).to_bytes(4, "big"), b"\0\0\0\2\0\0"):
        connection = ServerConnection(1000)
        data = good + bad
        connection.receive_buffer()[: len(data)] = data
        (request,) = connection.received(len(data))
        assert request.correlation_id == 1
        assert connection.violation is not None
        assert connection.respond(request, [b"ok"])


def test_violation_in_the_first_request_is_raised() -> None:
    connection = ServerConnection(1000)
    connection.receive_buffer()[:4] = b"\xff\xff\xff\xff"
    with pytest.raises(RemoteProtocolViolation):
        connection.received(4)


def test_large_request_is_received_in_bounded_pieces() -> None:
    connection = ServerConnection(1 << 30)
    connection.receive_buffer()[:4] = (1 << 29).to_bytes(4, "big")
    connection.received(4)
    for _ in range(20):
        room = len(connection.receive_buffer())
        assert room <= RECEIVED_BYTES_MAX
        connection.received(room)
