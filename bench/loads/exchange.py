"""One request, one answer, over a blocking socket."""

from __future__ import annotations

import socket
import struct

from bench.loads.frames import Exchange

ANSWER_SECONDS_MAX = 60.0
ANSWER_BYTES_MAX = 128 << 20


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """The whole answer with its length field; ConnectionError if the broker hangs up."""
    connection.sendall(frame)
    prefix = _receive(connection, 4)
    (size,) = struct.unpack(">i", prefix)
    if not 0 < size <= ANSWER_BYTES_MAX:
        raise ConnectionError(f"answer of {size} bytes")
    return prefix + _receive(connection, size)


def error_codes(exchange: Exchange, answer: bytes) -> list[int]:
    return [struct.unpack_from(">h", answer, position)[0] for position in exchange.error_positions]


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return bytes(received)
