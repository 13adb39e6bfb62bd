"""Malformed frames close their connection and affect no other.

Each test ends with a valid request on another connection.
"""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterator

import pytest
from tests.support.kio_requests import kio_requests, metadata_request, produce_request
from tests.support.raw_connection import ConnectionEnded, RawConnection, header_v1, request_body

API_VERSIONS = 18
METADATA = 3
PRODUCE = 0
UNSUPPORTED_VERSION = 35
NEWEST_API_VERSIONS = 4


@pytest.fixture
def connection(bootstrap: str) -> Iterator[RawConnection]:
    """The connection that sends malformed frames."""
    with RawConnection(bootstrap) as opened:
        yield opened


@pytest.fixture(autouse=True)
def good(bootstrap: str) -> Iterator[RawConnection]:
    """A valid connection opened before the test; it must still get responses afterwards."""
    with RawConnection(bootstrap) as opened:
        assert opened.exchange(metadata_request()).brokers
        yield opened
        assert opened.exchange(metadata_request()).brokers
    with RawConnection(bootstrap) as fresh:
        assert fresh.exchange(metadata_request()).brokers


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 104_857_601, 0x47455420])
def test_invalid_frame_length_closes_the_connection(connection: RawConnection, size: int) -> None:
    connection.send(struct.pack(">i", size))
    assert connection.is_closed_by_broker()


def test_empty_frame_closes_the_connection(connection: RawConnection) -> None:
    connection.send_frame(b"")
    assert connection.is_closed_by_broker()


@pytest.mark.parametrize("length", [1, 3, 7, 9])
def test_truncated_header_closes_the_connection(connection: RawConnection, length: int) -> None:
    connection.send_frame(header_v1(METADATA, 1, client_id="someone")[:length])
    assert connection.is_closed_by_broker()


def test_truncated_body_closes_the_connection(connection: RawConnection) -> None:
    body = request_body(produce_request("t", b"x" * 100), 0)
    connection.send_frame(body[:-50])
    assert connection.is_closed_by_broker()


def test_client_id_longer_than_the_frame_closes_the_connection(connection: RawConnection) -> None:
    connection.send_frame(struct.pack(">hhih", METADATA, 1, 0, 32_000) + b"short")
    assert connection.is_closed_by_broker()


@pytest.mark.parametrize("count", [2**31 - 1, 1_000_000])
def test_array_longer_than_the_frame_closes_the_connection(connection: RawConnection, count: int) -> None:
    connection.send_frame(header_v1(METADATA, 1) + struct.pack(">i", count))
    assert connection.is_closed_by_broker()


def test_string_that_is_not_utf8_does_not_affect_the_broker(
    connection: RawConnection, good: RawConnection
) -> None:
    connection.send_frame(header_v1(METADATA, 1) + struct.pack(">ih", 1, 3) + b"\xff\xfe\xfd")
    with contextlib.suppress(ConnectionEnded):
        connection.receive_frame()
    assert good.exchange(metadata_request()).brokers


@pytest.mark.parametrize("api_key", [999, -1, 32_767])
def test_unknown_api_closes_the_connection(connection: RawConnection, api_key: int) -> None:
    connection.send_frame(header_v1(api_key, 0))
    assert connection.is_closed_by_broker()


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 99), (PRODUCE, 99), (METADATA, -1)])
def test_unknown_version_closes_the_connection(connection: RawConnection, api_key: int, version: int) -> None:
    connection.send_frame(header_v1(api_key, version) + bytes(64))
    assert connection.is_closed_by_broker()


@pytest.mark.parametrize("version", [5, 99, 32_767])
def test_unsupported_api_versions_request_gets_a_v0_response(connection: RawConnection, version: int) -> None:
    connection.send_frame(header_v1(API_VERSIONS, version, correlation_id=77) + b"\x00\x01\x01\x00")
    expected = struct.pack(">ihihhh", 77, UNSUPPORTED_VERSION, 1, API_VERSIONS, 0, NEWEST_API_VERSIONS)
    assert connection.receive_frame() == expected
    connection.send_frame(header_v1(API_VERSIONS, 0, correlation_id=78))
    correlation_id, code = struct.unpack_from(">ih", connection.receive_frame())
    assert (correlation_id, code) == (78, 0)


def test_api_versions_response_has_header_v0_in_flexible_versions(
    connection: RawConnection,
) -> None:
    message = kio_requests("api_versions", 3).ApiVersionsRequest(
        client_software_name="raw", client_software_version="1"
    )
    response = connection.exchange(message)
    assert response.error_code == 0
    keys = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert keys[PRODUCE] == (0, 11)
    assert keys[API_VERSIONS] == (0, NEWEST_API_VERSIONS)


def test_garbage_frames_close_their_connections(bootstrap: str) -> None:
    rng = random.Random(20_24)
    for _ in range(200):
        with RawConnection(bootstrap) as connection:
            connection.send_frame(
                struct.pack(">h", 200 + rng.randrange(30_000)) + rng.randbytes(rng.randrange(300))
            )
            assert connection.is_closed_by_broker()


def test_random_bytes_do_not_affect_the_broker(bootstrap: str) -> None:
    rng = random.Random(7)
    for _ in range(50):
        with RawConnection(bootstrap) as connection:
            connection.send(rng.randbytes(rng.randrange(1, 2000)))


def test_incomplete_frames_do_not_affect_the_broker(bootstrap: str, good: RawConnection) -> None:
    unfinished = [RawConnection(bootstrap) for _ in range(20)]
    for connection in unfinished:
        connection.send(struct.pack(">i", 10_000_000) + bytes(1000))
    assert good.exchange(metadata_request()).brokers
    for connection in unfinished:
        connection.close()


def test_request_sent_byte_by_byte_is_answered(connection: RawConnection) -> None:
    body = request_body(metadata_request(), 5)
    for byte in struct.pack(">i", len(body)) + body:
        connection.send(bytes([byte]))
    assert connection.response(metadata_request())[0] == 5
