"""Limits of clients that have not authenticated: sizes, times and numbers."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.raw_connection import METADATA, ConnectionEnded, RawConnection, header_v1
from tests.support.secured_broker import SecuredBroker, password_of
from tests.support.secured_connection import (
    SecuredConnection,
    client_context,
    handshake_frame,
    token_frame,
)

OPENSSL = shutil.which("openssl")
API_VERSIONS = 18
TIMEOUT_S = 2.5
LATE_S_MAX = 10.0
"""Delay of a close that a busy machine may add."""
FRAME_BYTES_MAX = 4096
LISTENER_CONNECTIONS_MAX = 12
HOST_CONNECTIONS_MAX = 30
SETTINGS = {
    "odradek.authentication.timeout.ms": str(int(TIMEOUT_S * 1000)),
    "sasl.server.max.receive.size": str(FRAME_BYTES_MAX),
    "max.connections.per.ip": str(HOST_CONNECTIONS_MAX),
    "listener.name.sasl_ssl.max.connections": str(LISTENER_CONNECTIONS_MAX),
}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with small limits before authentication."""
    broker = SecuredBroker(tmp_path_factory.mktemp("limited"), dict(SETTINGS)).start()
    yield broker
    broker.stop()


def connect(broker: SecuredBroker, listener: str, user: str | None = None) -> SecuredConnection:
    """Connect, over TLS if the listener asks for it."""
    context = client_context(broker.files["authority"]) if listener.endswith("SSL") else None
    return SecuredConnection(broker.bootstrap(listener), context, user, user and password_of(user))


def is_served(connection: RawConnection, client_id: str = "raw") -> bool:
    connection.send_frame(header_v1(METADATA, 1, 77, client_id) + struct.pack(">i", 0))
    return connection.receive_frame()[:4] == struct.pack(">i", 77)


def seconds_until_closed(connection: RawConnection, keep_sending: Callable[[], None] | None = None) -> float:
    """Return how long the broker leaves a connection open; it may answer before."""
    began = time.monotonic()
    connection._socket.settimeout(0.2)
    while time.monotonic() - began < TIMEOUT_S + LATE_S_MAX:
        try:
            if keep_sending is not None:
                keep_sending()
            if not connection._socket.recv(1 << 16):
                return time.monotonic() - began
        except TimeoutError:
            continue
        except (OSError, ConnectionEnded):
            return time.monotonic() - began
    raise AssertionError("the connection is still open")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("size", [FRAME_BYTES_MAX + 1, 2**31 - 1, -1])
@pytest.mark.parametrize("step", ["first", "after handshake", "token without header"])
def test_large_frame_before_authentication_is_refused_by_its_size(
    limited: SecuredBroker, listener: str, size: int, step: str
) -> None:
    with connect(limited, listener) as connection:
        if step != "first":
            connection.send_frame(handshake_frame("PLAIN", 0 if step == "token without header" else 1))
            connection.receive_frame()
        connection.send(struct.pack(">i", size))
        assert seconds_until_closed(connection) < TIMEOUT_S * 0.8, "closed by the time limit, not the size"


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_authenticated_client_may_send_large_frames(limited: SecuredBroker, listener: str) -> None:
    with connect(limited, listener, "alice") as connection:
        assert is_served(connection, "x" * (FRAME_BYTES_MAX * 2))


def test_authenticated_clients_stay_connected(limited: SecuredBroker) -> None:
    with (
        connect(limited, "SASL_PLAINTEXT", "alice") as plain,
        connect(limited, "SASL_SSL", "alice") as over_tls,
    ):
        time.sleep(TIMEOUT_S + 0.5)
        assert is_served(plain)
        assert is_served(over_tls)


def _nothing(connection: SecuredConnection) -> None:
    """Send nothing."""


def _half_frame(connection: SecuredConnection) -> None:
    connection.send(struct.pack(">i", 100) + b"\0\x11")


def _api_versions(connection: SecuredConnection) -> None:
    connection.send_frame(header_v1(API_VERSIONS, 0))
    connection.receive_frame()


def _handshake(connection: SecuredConnection) -> None:
    connection.send_frame(handshake_frame("SCRAM-SHA-256"))
    connection.receive_frame()


def _first_of_two_tokens(connection: SecuredConnection) -> None:
    _handshake(connection)
    connection.send_frame(token_frame(b"n,,n=nobody,r=abcdefgh"))
    connection.receive_frame()


STEPS = [_nothing, _half_frame, _api_versions, _handshake, _first_of_two_tokens]


def _all_at_once(seconds: Callable[[Any], float], cases: list[Any]) -> list[float]:
    with ThreadPoolExecutor(len(cases)) as threads:
        return list(threads.map(seconds, cases))


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_client_that_does_not_go_on_is_closed(limited: SecuredBroker, listener: str) -> None:
    def seconds(step: Callable[[SecuredConnection], None]) -> float:
        with connect(limited, listener) as connection:
            step(connection)
            return seconds_until_closed(connection)

    assert [elapsed > TIMEOUT_S * 0.5 for elapsed in _all_at_once(seconds, STEPS)] == [True] * len(STEPS)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_slow_bytes_do_not_prolong_the_time(limited: SecuredBroker, listener: str) -> None:
    with connect(limited, listener) as connection:
        frame = iter(struct.pack(">i", 2000) + bytes(2000))
        assert (
            seconds_until_closed(connection, lambda: connection.send(bytes([next(frame)]))) > TIMEOUT_S * 0.5
        )


def test_repeated_requests_do_not_prolong_the_time(limited: SecuredBroker) -> None:
    """ApiVersions with an unknown version is answered as often as it is sent."""
    with connect(limited, "SASL_PLAINTEXT") as connection:
        unknown = header_v1(API_VERSIONS, 99) + b"\0"
        assert seconds_until_closed(connection, lambda: connection.send_frame(unknown)) > TIMEOUT_S * 0.5


HALF_HELLO = b"\x16\x03\x01\x02\x00\x01"


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_tls_handshake_that_does_not_go_on_is_closed(limited: SecuredBroker, listener: str) -> None:
    def seconds(case: tuple[bytes, bool]) -> float:
        sent, is_slow = case
        with RawConnection(limited.bootstrap(listener)) as connection:
            connection.send(sent)
            return seconds_until_closed(connection, (lambda: connection.send(b"\0")) if is_slow else None)

    cases = [(b"", False), (HALF_HELLO[:1], False), (HALF_HELLO, False), (HALF_HELLO, True)]
    assert [elapsed > TIMEOUT_S * 0.5 for elapsed in _all_at_once(seconds, cases)] == [True] * len(cases)


def test_plaintext_on_a_tls_listener_is_closed_at_once(limited: SecuredBroker) -> None:
    with RawConnection(limited.bootstrap("SASL_SSL")) as connection:
        connection.send_frame(header_v1(API_VERSIONS, 0))
        assert seconds_until_closed(connection) < TIMEOUT_S * 0.8


def _silent(address: tuple[str, int], source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(address, 5, source_address=(source, 0))


def _address(broker: SecuredBroker, listener: str) -> tuple[str, int]:
    host, _, port = broker.bootstrap(listener).rpartition(":")
    return host, int(port)


def _is_refused(connection: socket.socket) -> bool:
    connection.settimeout(TIMEOUT_S * 0.6)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_connections_of_a_listener_are_bounded_before_authentication(limited: SecuredBroker) -> None:
    """Silent connections count, and free their places when their time is over."""
    address = _address(limited, "SASL_SSL")
    silent = [_silent(address) for _ in range(LISTENER_CONNECTIONS_MAX)]
    with _silent(address) as refused:
        assert _is_refused(refused)
    for connection in silent:
        connection.settimeout(TIMEOUT_S + LATE_S_MAX)
        assert connection.recv(1) == b""
        connection.close()
    with connect(limited, "SASL_SSL", "alice") as honest:
        assert is_served(honest)


def test_connections_of_an_address_are_bounded_before_authentication(limited: SecuredBroker) -> None:
    address = _address(limited, "SASL_PLAINTEXT")
    silent = [_silent(address) for _ in range(HOST_CONNECTIONS_MAX)]
    with _silent(address) as refused, _silent(address, "127.0.0.9") as other:
        assert _is_refused(refused)
        other.sendall(struct.pack(">i", 13) + header_v1(API_VERSIONS, 0))
        assert other.recv(4), "another address is served"
    for connection in silent:
        connection.close()


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl here")
def test_renegotiation_by_the_client_is_refused(limited: SecuredBroker) -> None:
    """TLS 1.2 would let a client repeat the expensive part of a handshake on one connection."""
    assert OPENSSL is not None
    command = [
        OPENSSL,
        "s_client",
        "-tls1_2",
        "-legacy_renegotiation",
        "-connect",
        limited.bootstrap("SASL_SSL"),
    ]
    client = subprocess.run(command, input=b"R\n", capture_output=True, timeout=30, check=False)
    output = (client.stdout + client.stderr).decode(errors="replace")
    assert "RENEGOTIATING" in output
    assert "no renegotiation" in output
