"""Writes small records at a constant rate and reads them immediately: age of each record on arrival.

One process with two connections, one producing and one with a Fetch waiting at the end of the partition, so
that both times come from one clock. The age counts from when a record was due, not from when it was sent: a
stalled broker is charged for all delayed records.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Iterator

from bench.loads.broker.exchange import RESPONSE_SECONDS_MAX, connect, send_request
from bench.loads.broker.frames import batch, fetch, list_offsets, produce
from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

BYTES_MAX = 1 << 20
RECEIVE_BYTES = 1 << 16
LATEST = -1


class Responses:
    """Splits the bytes of a connection into frames."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._held = bytearray()

    def take(self) -> Iterator[bytes]:
        received = self._connection.recv(RECEIVE_BYTES)
        if not received:
            raise ConnectionError("the broker closed the connection")
        self._held += received
        while len(self._held) >= 4:
            size = 4 + struct.unpack_from(">i", self._held)[0]
            if len(self._held) < size:
                return
            yield bytes(self._held[:size])
            del self._held[:size]


class Tail:
    """Producer and consumer of the records: record n is due at `begin + n / rate` with offset `first + n`."""

    def __init__(self, spec: Spec) -> None:
        self._topic = spec["topic"]
        self._step = 1 / spec["rate"]
        self._count = int(spec["rate"] * spec["seconds"])
        self._record = produce(self._topic, {0: batch(values(1, spec["size"], spec["seed"]))})
        self._error_at = self._record.error_positions[0]
        self._out, self._in = connect(spec["port"]), connect(spec["port"])
        request = list_offsets(self._topic, 0, LATEST)
        self._first = struct.unpack_from(
            ">q", send_request(self._out, request.frame), request.error_positions[0] + 10
        )[0]
        self._next = self._first
        self.ages: list[float] = []
        self.sent = 0

    def run(self) -> None:
        produced, fetched = Responses(self._out), Responses(self._in)
        begin = time.perf_counter() + self._step
        last_received = begin
        self._fetch()
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ, produced)
            selector.register(self._in, selectors.EVENT_READ, fetched)
            while len(self.ages) < self._count:
                for key, _ in selector.select(self._send_due(begin)):
                    last_received = time.perf_counter()
                    for response in key.data.take():
                        if key.data is fetched:
                            self._received(response, last_received - begin)
                        elif struct.unpack_from(">h", response, self._error_at)[0]:
                            raise ConnectionError("a Produce failed")
                if time.perf_counter() - last_received > RESPONSE_SECONDS_MAX:
                    raise ConnectionError(f"{len(self.ages)} of {self.sent} received, then no more")

    def _send_due(self, begin: float) -> float:
        """Send all due records; return the seconds until the next."""
        while self.sent < self._count:
            wait = begin + self.sent * self._step - time.perf_counter()
            if wait > 0:
                return wait
            self._out.sendall(self._record.frame)
            self.sent += 1
        return RESPONSE_SECONDS_MAX

    def _fetch(self) -> None:
        self._in.sendall(fetch(self._topic, 0, self._next, BYTES_MAX).frame)

    def _received(self, response: bytes, now: float) -> None:
        """Handle a Fetch v11 response of one partition; every batch has one record."""
        marks = fetch(self._topic, 0, 0, BYTES_MAX).error_positions
        if any(struct.unpack_from(">h", response, at)[0] for at in marks):
            raise ConnectionError("a Fetch failed")
        for offset in _base_offsets(response, marks[1]):
            if offset >= self._next:
                self.ages.append(now - (offset - self._first) * self._step)
                self._next = offset + 1
        if len(self.ages) < self._count:
            self._fetch()


def _base_offsets(response: bytes, error_at: int) -> Iterator[int]:
    """Yield the base offsets after error code, watermarks, aborted transactions, replica and size."""
    (aborted,) = struct.unpack_from(">i", response, error_at + 26)
    position = error_at + 30 + 16 * max(aborted, 0) + 8
    while position + 12 <= len(response):
        offset, size = struct.unpack_from(">qi", response, position)
        position += 12 + size
        yield offset


def run(spec: Spec) -> Result:
    tail = Tail(spec)
    meter = Meter(spec["broker_pid"])
    meter.start()
    tail.run()
    cost = meter.stop()
    ages = sorted(tail.ages)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    ms = {name: ages[min(int(len(ages) * share), len(ages) - 1)] * 1000 for name, share in shares.items()}
    return {"records": len(ages), **ms, **cost.as_result()}


if __name__ == "__main__":
    serve(run)
