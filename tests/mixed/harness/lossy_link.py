"""A link in front of a broker's listener that can lose answers to requests of an API, or hold a request."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from tests.mixed.harness.tally import TALLY

LENGTH = struct.Struct(">i")
REQUEST_HEADER = struct.Struct(">hhi")
"""API key, version, correlation id."""
CHUNK_BYTES = 1 << 16
ACCEPT_SECONDS = 0.2
ANSWER_SECONDS_MAX = 30.0


class Selection(NamedTuple):
    """Requests of an API that contain these bytes."""

    api_key: int
    part: bytes

    def has(self, api_key: int, body: bytes) -> bool:
        return api_key == self.api_key and self.part in body


class LossyLink:
    """Listens on ``port``; a broker that listens elsewhere and advertises it is reached through the link.

    A lost answer leaves its connection open: the client waits until its own timeout. A held request reaches
    the broker when it is released, also if the client is gone by then, as from a slow network.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self.lost = 0
        self.is_holding = False
        self._broker_port = broker_port
        self._lost_requests: Selection | None = None
        self._held_request: Selection | None = None
        self._is_released = threading.Event()
        self._held_was_answered = threading.Event()
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(ACCEPT_SECONDS)
        self._sockets: list[socket.socket] = []
        self._is_closed = threading.Event()
        self._accepting = threading.Thread(target=self._accept)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed.set()
        self._is_released.set()
        self._accepting.join()
        self._server.close()
        for end in self._sockets:
            _close(end)

    def lose_answers(self, api_key: int, part: bytes) -> None:
        """Lose the answers to requests of this API, sent from now on, that contain these bytes.

        Only those: a client that sends one request at a time would not get to the next one.
        """
        self._lost_requests = Selection(api_key, part)

    def lose_nothing(self) -> None:
        self._lost_requests = None

    def hold_request(self, api_key: int, part: bytes) -> None:
        """Hold the next request of this API that contains these bytes, and what follows on its connection."""
        self._held_request = Selection(api_key, part)

    @property
    def held_was_answered(self) -> bool:
        return self._held_was_answered.is_set()

    def release(self) -> None:
        """Forward the held request."""
        self._is_released.set()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            with suppress(TimeoutError):
                client, _ = self._server.accept()
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self._broker_port))
        except OSError:
            client.close()
            return
        client.settimeout(None)
        self._sockets += [client, broker]
        doomed: set[int] = set()
        held: set[int] = set()
        for target in (self._forward_requests, self._forward_answers):
            threading.Thread(target=target, args=(client, broker, doomed, held), daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, broker: socket.socket, doomed: set[int], held: set[int]
    ) -> None:
        """Forward requests; note the correlation ids of the held one and those whose answers are lost."""
        with suppress(OSError, EOFError):
            while True:
                body = _receive_frame(client)
                api_key, _, correlation_id = REQUEST_HEADER.unpack_from(body)
                if self._lost_requests is not None and self._lost_requests.has(api_key, body):
                    doomed.add(correlation_id)
                if self._held_request is not None and self._held_request.has(api_key, body):
                    self._held_request = None
                    held.add(correlation_id)
                    self._hold()
                broker.sendall(LENGTH.pack(len(body)) + body)
                if correlation_id in held:  # the client may be gone: its end would close the connection
                    self._held_was_answered.wait(ANSWER_SECONDS_MAX)
        _close(client, broker)

    def _hold(self) -> None:
        TALLY.faults["delayed requests"] += 1
        self.is_holding = True
        self._is_released.wait()
        self.is_holding = False

    def _forward_answers(
        self, client: socket.socket, broker: socket.socket, doomed: set[int], held: set[int]
    ) -> None:
        with suppress(OSError, EOFError):
            while True:
                body = _receive_frame(broker)
                (correlation_id,) = LENGTH.unpack_from(body)
                if correlation_id in held:
                    self._held_was_answered.set()
                if correlation_id in doomed:
                    doomed.remove(correlation_id)
                    self.lost += 1
                    TALLY.faults["lost answers"] += 1
                else:
                    client.sendall(LENGTH.pack(len(body)) + body)
        _close(client, broker)


def _receive_frame(end: socket.socket) -> bytes:
    (length,) = LENGTH.unpack(_receive(end, LENGTH.size))
    return _receive(end, length)


def _receive(end: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = end.recv(min(count - len(data), CHUNK_BYTES))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
