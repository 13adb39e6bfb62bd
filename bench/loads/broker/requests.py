"""Sends prepared requests over plain sockets and counts responses, at minimal client cost.

All responses to a prepared request have the size of the first. The stream of a connection is then a sequence
of equal cells: responses are counted by division, and error codes checked at one position of every cell,
without splitting the stream. If a broker breaks the pattern, the generator fails after
`RESPONSE_SECONDS_MAX`.
"""

from __future__ import annotations

import itertools
import selectors
import time
from collections.abc import Sequence
from itertools import islice

from bench.loads.broker.exchange import RESPONSE_SECONDS_MAX, connect, error_codes, send_request
from bench.loads.broker.frames import NO_PRODUCER, Exchange, Producer, batch, fetch, list_offsets, produce
from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

RECEIVE_BYTES = 1 << 20


class Lane:
    """A connection with a constant number of requests in flight, cycling through prepared ones."""

    def __init__(self, port: int, turn: list[Exchange], in_flight: int) -> None:
        self.socket = connect(port)
        response = send_request(self.socket, turn[0].frame)
        if any(error_codes(turn[0], response)):
            raise ConnectionError(f"error codes {error_codes(turn[0], response)}")
        self.first_response = response
        self.response_bytes = len(response)
        self.completed_count = 0
        self._marks = [at + k for at in turn[0].error_positions for k in (0, 1)]
        self._position = 0
        self._in_flight = in_flight
        self._turn = itertools.cycle([exchange.frame for exchange in turn])
        self._same = [turn[0].frame * count for count in range(in_flight + 1)] if len(turn) == 1 else None
        self._sent = 0
        self._limit: int | None = None

    def begin(self, limit: int | None) -> None:
        self._limit = limit
        self._send(self._in_flight)

    @property
    def done(self) -> bool:
        return self._limit is not None and self.completed_count >= self._limit

    def receive(self, buffer: memoryview) -> None:
        """Receive available bytes, count the completed responses, and send as many requests."""
        count = self.socket.recv_into(buffer)
        if not count:
            raise ConnectionError(f"closed after {self.completed_count} responses")
        self._check(buffer, count)
        completed, self._position = divmod(self._position + count, self.response_bytes)
        if completed:
            self.completed_count += completed
            self._send(completed)

    def drain(self, buffer: memoryview) -> None:
        """Receive the outstanding responses, uncounted."""
        due = (self._sent - self.completed_count) * self.response_bytes - self._position
        while due > 0:
            count = self.socket.recv_into(buffer)
            if not count:
                return
            due -= count

    def _check(self, buffer: memoryview, count: int) -> None:
        """Raise ConnectionError if an error code among the received bytes is not 0."""
        size = self.response_bytes
        for mark in self._marks:
            if any(buffer[(mark - self._position) % size : count : size]):
                raise ConnectionError(f"error code in a response after {self.completed_count} responses")

    def _send(self, count: int) -> None:
        if self._limit is not None:
            count = min(count, self._limit - self._sent)
        if count > 0:
            self.socket.sendall(self._same[count] if self._same else b"".join(islice(self._turn, count)))
            self._sent += count


def run(spec: Spec) -> Result:
    lanes = [Lane(spec["port"], turn, spec["in_flight"]) for turn in _turns(spec)]
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    meter = Meter(spec["broker_pid"])
    limit, seconds = spec.get("requests"), spec.get("seconds", float("inf"))
    meter.start()
    end = time.perf_counter() + seconds
    for lane in lanes:
        lane.begin(limit)
    drive(lanes, buffer, end)
    cost = meter.stop()
    for lane in lanes:
        lane.drain(buffer)
    completed_count = sum(lane.completed_count for lane in lanes)
    return {"requests": completed_count, "response_bytes": lanes[0].response_bytes, **cost.as_result()}


def _turns(spec: Spec) -> list[list[Exchange]]:
    """Return the requests of each connection: one partition each, possibly at several offsets or times."""
    topic = spec["topic"]
    if spec["api"] == "fetch":
        return [
            [fetch(topic, partition, offset, spec["bytes_max"]) for offset in spec["offsets"]]
            for partition in spec["partitions"]
        ]
    if spec["api"] == "list_offsets":
        return [
            [list_offsets(topic, partition, time_ms) for time_ms in spec["times_ms"]]
            for partition in spec["partitions"]
        ]
    if spec["api"] == "batches":
        return [_batches(spec, partition) for partition in spec["partitions"]]
    records = batch(values(spec["records"], spec["size"], spec["seed"]))
    return [[produce(topic, {partition: records})] for partition in spec["partitions"]]


def _batches(spec: Spec, partition: int) -> list[Exchange]:
    """Return one batch per idempotent producer and round, with increasing sequences; or plain batches.

    Every request has its own bytes: a repeated one would stay in the processor's cache.
    """
    count = spec["records"]
    same = values(count, spec["size"], spec["seed"])
    writers = [
        Producer(producer_id, 0, number * count)
        for number in range(spec["batch"], spec["batch"] + spec["rounds"])
        for producer_id in range(spec["producers"])
    ]
    return [
        produce(spec["topic"], {partition: batch(same, producer=producer)})
        for producer in writers or [NO_PRODUCER] * spec["rounds"]
    ]


def drive(lanes: Sequence[Lane], buffer: memoryview, end: float) -> None:
    """Receive responses and send requests until the time is up or every lane has its count."""
    if len(lanes) == 1:
        _drive_one(lanes[0], buffer, end)
    else:
        _drive_many(lanes, buffer, end)


def _drive_one(lane: Lane, buffer: memoryview, end: float) -> None:
    while not lane.done and time.perf_counter() < end:
        lane.receive(buffer)


def _drive_many(lanes: Sequence[Lane], buffer: memoryview, end: float) -> None:
    with selectors.DefaultSelector() as selector:
        for lane in lanes:
            selector.register(lane.socket, selectors.EVENT_READ, lane)
        busy = len(lanes)
        while busy and time.perf_counter() < end:
            ready = selector.select(RESPONSE_SECONDS_MAX)
            if not ready:
                raise ConnectionError(f"no response in {RESPONSE_SECONDS_MAX:.0f} s")
            for key, _ in ready:
                lane = key.data
                lane.receive(buffer)
                if lane.done:
                    selector.unregister(lane.socket)
                    busy -= 1


if __name__ == "__main__":
    serve(run)
