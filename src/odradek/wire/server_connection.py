"""Broker end of a connection: bytes to requests, responses to bytes in request order.

Requests may complete in any order; a response is held back until all earlier requests are complete, because
clients match responses by order. A request without a response (acks=0) takes part in that order too.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final

from odradek.model.errors import LocalProtocolViolation, RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.wire.frames import FrameReader
from odradek.wire.headers import RESPONSE_FLEXIBLE_SINCE, RequestHeader, decode_request_header
from odradek.wire.schema import NEVER

JOIN_BYTES_MAX: Final = 4096
"""A first part up to this size is joined with the response header, to send one buffer less."""

FRAMES_MAX: Final = 64
"""Requests decoded at once: a client may pipeline thousands while other connections wait."""

RECEIVED_BYTES_MAX: Final = 1024 * 1024
"""Bytes received at once: a larger copy would delay other connections."""

TOKEN_KEY: Final = -1
"""API key that stands for a frame without a request header: a token of SASL after SaslHandshake version 0."""

_pack_size = Struct(">i").pack
_pack_plain = Struct(">ii").pack
_pack_tagged = Struct(">iix").pack


_TOKEN_HEADER: Final = RequestHeader(TOKEN_KEY, 0, 0, None)


class Request:
    """A received request: its header, and the frame with the body from ``body_position`` on."""

    __slots__ = (
        "_ready",
        "api_key",
        "api_version",
        "body_position",
        "client_id",
        "correlation_id",
        "frame",
    )

    def __init__(self, header: RequestHeader, frame: memoryview, body_position: int) -> None:
        self.api_key, self.api_version, self.correlation_id, self.client_id = header
        self.frame = frame
        self.body_position = body_position
        self._ready: list[Part] | None = None

    def __repr__(self) -> str:
        return (
            f"Request(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r}, bytes={len(self.frame)})"
        )


class ServerConnection:
    """Sans-IO server connection: receive into ``receive_buffer()``, send the parts ``respond`` returns."""

    __slots__ = ("_frames", "_waiting", "expects_tokens", "response_bytes", "violation")

    def __init__(self, frame_bytes_max: int, scratch: memoryview | None = None) -> None:
        """``scratch`` may be shared by connections that never receive concurrently; see ``frames``."""
        self._frames = FrameReader(frame_bytes_max, scratch, frames_max=FRAMES_MAX)
        self._waiting: deque[Request] = deque()
        self.expects_tokens = False
        """True if frames have no header; see ``TOKEN_KEY``."""
        self.response_bytes = 0
        """Total size of all responses so far."""
        self.violation: RemoteProtocolViolation | None = None
        """Protocol violation after the last requests, which ends the connection, if any."""

    @property
    def partial_bytes(self) -> int:
        """Bytes received of an incomplete request."""
        return self._frames.partial_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of all received requests whose responses have not been returned for sending."""
        return self._frames.partial_bytes + sum(len(request.frame) + 4 for request in self._waiting)

    def release(self) -> None:
        """Drop all requests and received bytes of a closed connection."""
        self._frames.release()
        self._waiting.clear()

    @property
    def in_flight(self) -> int:
        """Number of requests whose responses have not been returned for sending."""
        return len(self._waiting)

    @property
    def frame_bytes_max(self) -> int:
        return self._frames.frame_bytes_max

    @frame_bytes_max.setter
    def frame_bytes_max(self, limit: int) -> None:
        """Set the limit for later frames, e.g. once the connection is authenticated."""
        self._frames.frame_bytes_max = limit

    def receive_buffer(self) -> memoryview:
        buffer = self._frames.buffer()
        return buffer if len(buffer) <= RECEIVED_BYTES_MAX else buffer[:RECEIVED_BYTES_MAX]

    def received(self, count: int) -> list[Request]:
        """Return the requests completed by ``count`` bytes; raise ``RemoteProtocolViolation`` if invalid.

        Requests before the first violation are returned, so that they can be served, and ``violation`` is
        set: nothing more may be received.
        """
        return self._requests(self._frames.received(count))

    @property
    def has_more(self) -> bool:
        """True while complete requests may remain; they must be taken before more is received."""
        return self._frames.has_more

    def more(self) -> list[Request]:
        """Return the next requests of the received bytes; none after a violation, see ``violation``."""
        try:
            return self._requests(self._frames.more())
        except RemoteProtocolViolation as violation:
            self.violation = violation
            return []

    def _requests(self, frames: list[memoryview]) -> list[Request]:
        requests: list[Request] = []
        for frame in frames:
            if self.expects_tokens:
                requests.append(Request(_TOKEN_HEADER, frame, 0))
                continue
            try:
                header, position = decode_request_header(frame)
            except RemoteProtocolViolation as violation:
                self._frames.violation = violation
                if not requests:
                    raise
                break
            requests.append(Request(header, frame, position))
        self._waiting.extend(requests)
        self.violation = self._frames.violation
        return requests

    def respond(self, request: Request, parts: list[Part]) -> list[Part]:
        """Complete a request with a response body; return the parts of all responses that may be sent now."""
        size = 4
        for part in parts:
            size += len(part)
        self.response_bytes += size
        if request.api_key == TOKEN_KEY:
            return self._release(request, [_pack_size(size - 4), *parts])
        if request.api_version >= RESPONSE_FLEXIBLE_SINCE.get(request.api_key, NEVER):
            head = _pack_tagged(size + 1, request.correlation_id)
        else:
            head = _pack_plain(size, request.correlation_id)
        if parts and type(first := parts[0]) is bytes and len(first) <= JOIN_BYTES_MAX:
            return self._release(request, [head + first, *parts[1:]])
        return self._release(request, [head, *parts])

    def skip_response(self, request: Request) -> list[Part]:
        """Complete a request without a response; return the parts of responses held back by it."""
        return self._release(request, [])

    def _release(self, request: Request, ready: list[Part]) -> list[Part]:
        waiting = self._waiting
        if request._ready is not None:
            raise LocalProtocolViolation(f"{request} must be completed once")
        request._ready = ready
        if not waiting or waiting[0] is not request:
            return []
        waiting.popleft()
        while waiting and (held := waiting[0]._ready) is not None:
            ready = ready + held
            waiting.popleft()
        return ready
