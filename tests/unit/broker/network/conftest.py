"""Fixtures of the network tests: a fake connection, and frames for a session."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.network.connection_scheduler import ConnectionScheduler
from odradek.broker.network.memory_pool import RequestMemoryPool
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.ports.files import Parts
from odradek.wire.server_connection import Request

METADATA = 3


class FakeConnection:
    """Connection whose client reads at once, unless ``stuck``."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.peer_host = host
        self.peer = f"{host}:1234"
        self.queued_bytes = 0
        self.sent = bytearray()
        self.stuck = False
        self.paused = False
        self.closed: list[bool] = []
        self.receiver: Any = None
        self.ends_at_once = True
        """True if a close with flush completes at once; one without always does."""
        self._is_lost = False

    def send(self, parts: Parts) -> None:
        size = sum(len(part) for part in parts)
        if self.stuck:
            self.queued_bytes += size
        else:
            for part in parts:
                self.sent += bytes(part)  # type: ignore[arg-type]

    def drain(self) -> None:
        self.stuck, self.queued_bytes = False, 0
        self.receiver.output_drained()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self, *, flush: bool = False) -> None:
        self.closed.append(flush)
        if self.receiver is not None and not self._is_lost and (self.ends_at_once or not flush):
            self._is_lost = True
            self.receiver.connection_lost(None)

    @property
    def responses(self) -> list[tuple[int, bytes]]:
        """Correlation ids and bodies of the responses sent so far."""
        result, position = [], 0
        while position < len(self.sent):
            size, correlation_id = struct.unpack_from(">ii", self.sent, position)
            result.append((correlation_id, bytes(self.sent[position + 8 : position + 4 + size])))
            position += 4 + size
        return result


def frame(correlation_id: int, api_key: int = METADATA, version: int = 1, body: bytes = b"\0\0\0\0") -> bytes:
    """Return a request frame with a version 1 header."""
    content = struct.pack(">hhih", api_key, version, correlation_id, 1) + b"c" + body
    return struct.pack(">i", len(content)) + content


class SessionHarness:
    """Session on a fake connection; requests are kept until a test responds."""

    def __init__(
        self,
        queue: RequestQueue | None = None,
        in_flight_max: int = 3,
        scheduler: ConnectionScheduler | None = None,
        memory: RequestMemoryPool | None = None,
    ) -> None:
        self.now_ns = 0
        self.memory = memory or RequestMemoryPool(1 << 20)
        self.started: list[Request] = []
        self.ended: list[Session] = []
        self.deferred: list[Callable[[], None]] = []
        self.on_start: Callable[[Request, Session], None] | None = None
        self.connection = FakeConnection()
        self.queue = queue or RequestQueue(500)
        self.session = Session(
            self.connection,
            "PLAINTEXT",
            self._start,
            self.ended.append,
            ConnectionScheduler(lambda: self.now_ns, self.deferred.append)
            if scheduler is None
            else scheduler,
            self.queue,
            self.memory,
            frame_bytes_max=1000,
            in_flight_max=in_flight_max,
        )
        self.connection.receiver = self.session

    def _start(self, request: Request, session: Session) -> None:
        self.started.append(request)
        if self.on_start is not None:
            self.on_start(request, session)

    def receive(self, data: bytes) -> None:
        """Receive bytes in one piece, or in as few as the session's buffer allows."""
        while data:
            buffer = self.session.receive_buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.session.bytes_received(count)

    def respond(self, number: int, body: bytes = b"") -> None:
        """Respond to the request with this correlation id, then run deferred callbacks."""
        [request] = [started for started in self.started if started.correlation_id == number]
        self.session.send_response(request, [body])
        self.run_deferred()

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    @property
    def correlation_ids(self) -> list[int]:
        return [request.correlation_id for request in self.started]


@pytest.fixture
def harness() -> SessionHarness:
    return SessionHarness()


@pytest.fixture(scope="session")
def new_harness() -> type[SessionHarness]:
    return SessionHarness


@pytest.fixture(scope="session")
def new_connection() -> type[FakeConnection]:
    return FakeConnection


@pytest.fixture(scope="session")
def make_frame() -> Callable[..., bytes]:
    return frame
