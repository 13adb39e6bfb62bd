"""Single requests over a blocking socket."""

from __future__ import annotations

import socket
import struct

from bench.loads.broker.frames import Exchange

RESPONSE_SECONDS_MAX = 60.0
RESPONSE_BYTES_MAX = 128 << 20


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=RESPONSE_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def send_request(connection: socket.socket, frame: bytes) -> bytes:
    """Send a request; return the response with its size field. ConnectionError after a disconnect."""
    connection.sendall(frame)
    prefix = _receive(connection, 4)
    (size,) = struct.unpack(">i", prefix)
    if not 0 < size <= RESPONSE_BYTES_MAX:
        raise ConnectionError(f"response size must be in 1..{RESPONSE_BYTES_MAX}, got {size}")
    return prefix + _receive(connection, size)


def error_codes(exchange: Exchange, response: bytes) -> list[int]:
    return [struct.unpack_from(">h", response, position)[0] for position in exchange.error_positions]


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return bytes(received)
