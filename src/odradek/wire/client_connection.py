"""Client end of a connection: requests to bytes, bytes to responses matched with their requests.

A broker responds to the requests of a connection in order, so the next response must carry the correlation id
of the oldest request that expects one. A broker that does not support the version of an ApiVersions request
responds in version 0: the decoder of the body must check the error code, its first two bytes, before it
trusts the requested version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.wire.frames import FrameReader
from odradek.wire.headers import RequestHeader, decode_response_header, encode_request_header

_size = Struct(">i")

# Brokers are trusted to send what they announce: the buffer of a response is allocated at once up to this
# size, which is above fetch.max.bytes.
_ANNOUNCED_BYTES_MAX: Final = 64 * 1024 * 1024


class Response:
    """One response: the request it belongs to, and the frame with the body from ``body_position`` on."""

    __slots__ = ("api_key", "api_version", "body_position", "correlation_id", "frame")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, frame: memoryview, body_position: int
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.frame = frame
        self.body_position = body_position


class ClientConnection:
    """Sans-IO client connection: send the parts ``request`` returns, receive into ``receive_buffer()``."""

    __slots__ = ("_client_id", "_frames", "_next_id", "_waiting")

    def __init__(
        self,
        frame_bytes_max: int,
        client_id: str | None = None,
        scratch: memoryview | None = None,
        allocate: Callable[[int], bytearray | memoryview] = bytearray,
    ) -> None:
        self._frames = FrameReader(frame_bytes_max, scratch, _ANNOUNCED_BYTES_MAX, allocate)
        self._client_id = client_id
        self._next_id = 0
        self._waiting: deque[RequestHeader] = deque()

    def set_response_bytes_max(self, frame_bytes_max: int) -> None:
        """Set the maximum size of responses from now on."""
        self._frames.frame_bytes_max = frame_bytes_max

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def violation(self) -> RemoteProtocolViolation | None:
        """Protocol violation found after the responses returned last, if any."""
        return self._frames.violation

    def request(
        self, api_key: int, api_version: int, body: list[Part], *, expects_response: bool = True
    ) -> tuple[int, list[Part]]:
        """Frame a request; return its correlation id and the parts to send."""
        header = RequestHeader(api_key, api_version, self._next_id, self._client_id)
        head = encode_request_header(header)
        size = len(head) + sum(len(part) for part in body)
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        if expects_response:
            self._waiting.append(header)
        return header.correlation_id, [_size.pack(size) + head, *body]

    def receive_buffer(self) -> memoryview:
        return self._frames.buffer()

    def received(self, count: int) -> list[Response]:
        """Return the responses completed by ``count`` more bytes, in request order."""
        return [self._match(frame) for frame in self._frames.received(count)]

    def _match(self, frame: memoryview) -> Response:
        if not self._waiting:
            raise RemoteProtocolViolation("response without an outstanding request")
        sent = self._waiting.popleft()
        correlation_id, position = decode_response_header(frame, sent.api_key, sent.api_version)
        if correlation_id != sent.correlation_id:
            raise RemoteProtocolViolation(
                f"correlation id must be {sent.correlation_id} (API {sent.api_key}), got {correlation_id}"
            )
        return Response(sent.api_key, sent.api_version, correlation_id, frame, position)
