"""The broker's end of a connection: bytes to requests, answers to bytes in the order of the requests.

Answers may be made in any order; each is held until all earlier requests are answered, because a client
matches them by place. A request that wants no answer (acks=0) takes its turn like the others and sends
nothing.
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
"""A first part up to this size is joined to its header: one piece less to send."""

FRAMES_MAX: Final = 64
"""Requests taken out of what was received at once: there may be ten thousand, and others wait meanwhile."""

RECEIVED_BYTES_MAX: Final = 1024 * 1024
"""Received at once: copying more out of the system would keep other connections waiting."""

_pack_plain = Struct(">ii").pack
_pack_tagged = Struct(">iix").pack


class Request:
    """One request as it arrived: its header, and the frame with its body from ``body_position`` on."""

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
    """Sans-IO: receive into ``receive_buffer()``, send what ``answer`` gives."""

    __slots__ = ("_frames", "_waiting", "response_bytes", "violation")

    def __init__(self, frame_bytes_max: int, scratch: memoryview | None = None) -> None:
        """``scratch`` may be shared by connections that receive one after the other; see ``frames``."""
        self._frames = FrameReader(frame_bytes_max, scratch, frames_max=FRAMES_MAX)
        self._waiting: deque[Request] = deque()
        self.response_bytes = 0
        """Size of all answers so far."""
        self.violation: RemoteProtocolViolation | None = None
        """Fault behind the last requests that ends the connection, if any."""

    @property
    def partial_bytes(self) -> int:
        """Bytes received of a request that is not complete."""
        return self._frames.partial_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes received of all requests whose answers have not been given back for sending."""
        return self._frames.partial_bytes + sum(len(request.frame) + 4 for request in self._waiting)

    def release(self) -> None:
        """Let go of all requests and of what was received: the connection is gone."""
        self._frames.release()
        self._waiting.clear()

    @property
    def in_flight(self) -> int:
        """Requests given out whose answers have not been given back for sending."""
        return len(self._waiting)

    @property
    def frame_bytes_max(self) -> int:
        return self._frames.frame_bytes_max

    @frame_bytes_max.setter
    def frame_bytes_max(self, limit: int) -> None:
        """For frames from now on: a connection may be trusted with more once it is authenticated."""
        self._frames.frame_bytes_max = limit

    def receive_buffer(self) -> memoryview:
        buffer = self._frames.buffer()
        return buffer if len(buffer) <= RECEIVED_BYTES_MAX else buffer[:RECEIVED_BYTES_MAX]

    def received(self, count: int) -> list[Request]:
        """Requests complete after ``count`` more bytes; ``RemoteProtocolViolation`` if they are not Kafka's.

        Requests before the first fault are given, so that they can be served; ``violation`` then says what it
        is, and nothing more may be received.
        """
        return self._requests(self._frames.received(count))

    @property
    def has_more(self) -> bool:
        """True while requests may be left in the received bytes: they are taken before more is received."""
        return self._frames.has_more

    def more(self) -> list[Request]:
        """Give the next requests of what was received; none if there is a fault, see ``violation``."""
        try:
            return self._requests(self._frames.more())
        except RemoteProtocolViolation as bad:
            self.violation = bad
            return []

    def _requests(self, frames: list[memoryview]) -> list[Request]:
        requests: list[Request] = []
        for frame in frames:
            try:
                header, position = decode_request_header(frame)
            except RemoteProtocolViolation as bad:
                self._frames.violation = bad
                if not requests:
                    raise
                break
            requests.append(Request(header, frame, position))
        self._waiting.extend(requests)
        self.violation = self._frames.violation
        return requests

    def respond(self, request: Request, parts: list[Part]) -> list[Part]:
        """Give the answer's body; get what may be sent now, which may be nothing or several answers."""
        size = 4
        for part in parts:
            size += len(part)
        self.response_bytes += size
        if request.api_version >= RESPONSE_FLEXIBLE_SINCE.get(request.api_key, NEVER):
            head = _pack_tagged(size + 1, request.correlation_id)
        else:
            head = _pack_plain(size, request.correlation_id)
        if parts and type(first := parts[0]) is bytes and len(first) <= JOIN_BYTES_MAX:
            return self._release(request, [head + first, *parts[1:]])
        return self._release(request, [head, *parts])

    def skip_response(self, request: Request) -> list[Part]:
        """The request is done and its client expects nothing; get what was held back behind it."""
        return self._release(request, [])

    def _release(self, request: Request, ready: list[Part]) -> list[Part]:
        waiting = self._waiting
        if request._ready is not None:
            raise LocalProtocolViolation(f"{request} is answered twice")
        request._ready = ready
        if not waiting or waiting[0] is not request:
            return []
        waiting.popleft()
        while waiting and (held := waiting[0]._ready) is not None:
            ready = ready + held
            waiting.popleft()
        return ready
