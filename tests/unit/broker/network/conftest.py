"""What tests of the broker share: a connection that keeps what it is told, and frames to feed a session."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.network.connection_scheduler import Turns
from odradek.broker.network.memory_pool import RequestMemory
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.ports.files import Part
from odradek.wire.server_connection import Request

METADATA = 3


class FakeConnection:
    """A connection whose peer reads at once, unless ``stuck``."""

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
        """Whether a close with flush ends at once; one without always does."""
        self._is_lost = False

    def send(self, parts: list[Part]) -> None:
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
    def answers(self) -> list[tuple[int, bytes]]:
        """Correlation ids and bodies of the answers sent so far."""
        found, position = [], 0
        while position < len(self.sent):
            size, correlation_id = struct.unpack_from(">ii", self.sent, position)
            found.append((correlation_id, bytes(self.sent[position + 8 : position + 4 + size])))
            position += 4 + size
        return found


def frame(correlation_id: int, api_key: int = METADATA, version: int = 1, body: bytes = b"\0\0\0\0") -> bytes:
    """A request with the header of old versions."""
    content = struct.pack(">hhih", api_key, version, correlation_id, 1) + b"c" + body
    return struct.pack(">i", len(content)) + content


class Bench:
    """A session on a fake connection; requests are kept until a test answers them."""

    def __init__(
        self,
        queue: RequestQueue | None = None,
        under_way_max: int = 3,
        turns: Turns | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        self.now_ns = 0
        self.memory = memory or RequestMemory(1 << 20)
        self.begun: list[Request] = []
        self.ended: list[Session] = []
        self.deferred: list[Callable[[], None]] = []
        self.on_begin: Callable[[Request, Session], None] | None = None
        self.connection = FakeConnection()
        self.queue = queue or RequestQueue(500)
        self.session = Session(
            self.connection,
            "PLAINTEXT",
            self._begin,
            self.ended.append,
            Turns(lambda: self.now_ns, self.deferred.append) if turns is None else turns,
            self.queue,
            self.memory,
            frame_bytes_max=1000,
            under_way_max=under_way_max,
        )
        self.connection.receiver = self.session

    def _begin(self, request: Request, session: Session) -> None:
        self.begun.append(request)
        if self.on_begin is not None:
            self.on_begin(request, session)

    def receive(self, data: bytes) -> None:
        """Let bytes arrive in one piece, or as few as the session lends room for."""
        while data:
            buffer = self.session.receive_buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.session.bytes_received(count)

    def answer(self, number: int, body: bytes = b"") -> None:
        """Answer the request with this correlation id, then do what was put off."""
        [request] = [one for one in self.begun if one.correlation_id == number]
        self.session.answer(request, [body])
        self.run_deferred()

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    @property
    def numbers(self) -> list[int]:
        return [one.correlation_id for one in self.begun]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def new_bench() -> type[Bench]:
    return Bench


@pytest.fixture(scope="session")
def new_connection() -> type[FakeConnection]:
    return FakeConnection


@pytest.fixture(scope="session")
def make_frame() -> Callable[..., bytes]:
    return frame
