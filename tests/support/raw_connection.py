"""A raw connection to a broker: frames and bytes, without a client.

Messages are encoded and decoded by ``kio``, an independent implementation, or by hand; never by our own
wire layer, whose bugs would cancel out.
"""

from __future__ import annotations

import io
import itertools
import socket
import struct
from types import TracebackType
from typing import Any, Self

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

METADATA = 3
ANSWER_SECONDS_MAX = 15.0


class ConnectionEnded(Exception):
    """Raised when the broker closes the connection while bytes are expected."""


class RawConnection:
    """One TCP connection; requests get correlation ids 0, 1, 2, …"""

    def __init__(self, bootstrap: str, receive_buffer_bytes: int | None = None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.socket()
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(ANSWER_SECONDS_MAX)
        try:
            self._socket.connect((host, int(port)))
        except OSError:
            self._socket.close()
            raise
        self._correlation_ids = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self._socket.sendall(data)

    def finish_sending(self) -> None:
        """Shut down the sending side, and keep reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def send_frame(self, body: bytes) -> None:
        """Send bytes as a frame."""
        self.send(struct.pack(">i", len(body)) + body)

    def request(self, message: Any, client_id: str | None = "raw") -> int:
        """Send a kio request; return its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(request_body(message, correlation_id, client_id))
        return correlation_id

    def receive(self, count: int) -> bytes:
        """Receive exactly ``count`` bytes; raises ConnectionEnded."""
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self._socket.recv(min(count - len(data), 1 << 20))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ConnectionEnded(f"closed after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)

    def receive_frame(self) -> bytes:
        """Receive the next frame, without its length."""
        (size,) = struct.unpack(">i", self.receive(4))
        return self.receive(size)

    def response(self, request: Any) -> tuple[int, Any]:
        """Receive the response to this request; return correlation id and kio response."""
        kind = load_response_schema(request.__api_key__, request.__version__)
        frame = self.receive_frame()
        header, size = entity_reader(kind.__header_schema__)(frame, 0)
        body, body_size = entity_reader(kind)(frame, size)
        assert size + body_size == len(frame), "the response has trailing bytes"
        return header.correlation_id, body

    def exchange(self, message: Any) -> Any:
        """Send one kio request and return its response."""
        sent = self.request(message)
        correlation_id, body = self.response(message)
        assert correlation_id == sent
        return body

    def is_closed_by_broker(self, within_seconds: float = 5.0) -> bool:
        """Wait until the broker has closed the connection; bytes before that are an error."""
        self._socket.settimeout(within_seconds)
        try:
            chunk = self._socket.recv(1)
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(ANSWER_SECONDS_MAX)
        assert chunk == b"", "the broker sent bytes instead of closing the connection"
        return True


def request_body(message: Any, correlation_id: int, client_id: str | None = "raw") -> bytes:
    """Encode a kio request with its header, without the frame length."""
    buffer = io.BytesIO()
    header_kind = message.__header_schema__
    header = header_kind(
        request_api_key=message.__api_key__,
        request_api_version=message.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    entity_writer(header_kind)(buffer, header)
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def header_v1(api_key: int, version: int, correlation_id: int = 0, client_id: str = "raw") -> bytes:
    """Encode a request header version 1 by hand."""
    name = client_id.encode()
    return struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name


def broker_answers(bootstrap: str) -> bool:
    """Return whether the broker's metadata includes at least one broker."""
    no_topics = struct.pack(">i", 0)
    try:
        with RawConnection(bootstrap) as connection:
            connection.send_frame(header_v1(METADATA, 1) + no_topics)
            _, brokers = struct.unpack_from(">ii", connection.receive_frame())
            return bool(brokers > 0)
    except (ConnectionEnded, OSError):
        return False
