"""Sends prepared requests over plain sockets and counts answers: the cheapest client there can be.

Every answer to one prepared request has the same size, learned from the first. The stream of a
connection is then a row of equal cells: answers are counted by dividing, and error codes are checked by
looking at one place in every cell, without cutting the stream up. A broker that breaks the pattern
leaves the generator waiting, and it says so after `ANSWER_SECONDS_MAX`.
"""

from __future__ import annotations

import itertools
import selectors
import time
from itertools import islice

from bench.loads.exchange import ANSWER_SECONDS_MAX, ask, connect, error_codes
from bench.loads.frames import NOBODY, Exchange, Producer, batch, fetch, list_offsets, produce
from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

RECEIVE_BYTES = 1 << 20


class Lane:
    """One connection with a constant number of requests in flight, taken in turn from a few prepared."""

    def __init__(self, port: int, turn: list[Exchange], in_flight: int) -> None:
        self.socket = connect(port)
        answer = ask(self.socket, turn[0].frame)
        if any(error_codes(turn[0], answer)):
            raise ConnectionError(f"error codes {error_codes(turn[0], answer)}")
        self.answer_bytes = len(answer)
        self.answered = 0
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
        return self._limit is not None and self.answered >= self._limit

    def receive(self, buffer: memoryview) -> None:
        """Take what is there, count the answers it completes, send as many requests again."""
        count = self.socket.recv_into(buffer)
        if not count:
            raise ConnectionError(f"closed after {self.answered} answers")
        size = self.answer_bytes
        for mark in self._marks:
            if any(buffer[(mark - self._position) % size : count : size]):
                raise ConnectionError(f"an error code after {self.answered} answers")
        completed, self._position = divmod(self._position + count, size)
        if completed:
            self.answered += completed
            self._send(completed)

    def drain(self, buffer: memoryview) -> None:
        """Take the answers still due, uncounted."""
        due = (self._sent - self.answered) * self.answer_bytes - self._position
        while due > 0:
            count = self.socket.recv_into(buffer)
            if not count:
                return
            due -= count

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
    answered = sum(lane.answered for lane in lanes)
    return {"requests": answered, "answer_bytes": lanes[0].answer_bytes, **cost.as_result()}


def _turns(spec: Spec) -> list[list[Exchange]]:
    """What each connection sends: one partition for each; others may walk through several places."""
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
    """One batch of each idempotent producer in turn, and again with the next sequence; or plain ones.

    Every request has bytes of its own: one that is sent again and again stays in the processor's cache.
    """
    count = spec["records"]
    same = values(count, spec["size"], spec["seed"])
    writers = [
        Producer(producer_id, 0, number * count)
        for number in range(spec["batch"], spec["batch"] + spec["rounds"])
        for producer_id in range(spec["producers"])
    ]
    return [
        produce(spec["topic"], {partition: batch(same, producer=one)})
        for one in writers or [NOBODY] * spec["rounds"]
    ]


def drive(lanes: list[Lane], buffer: memoryview, end: float) -> None:
    """Take answers and send requests until the time is up or every lane has its number."""
    if len(lanes) == 1:
        _drive_one(lanes[0], buffer, end)
    else:
        _drive_many(lanes, buffer, end)


def _drive_one(lane: Lane, buffer: memoryview, end: float) -> None:
    while not lane.done and time.perf_counter() < end:
        lane.receive(buffer)


def _drive_many(lanes: list[Lane], buffer: memoryview, end: float) -> None:
    with selectors.DefaultSelector() as selector:
        for lane in lanes:
            selector.register(lane.socket, selectors.EVENT_READ, lane)
        busy = len(lanes)
        while busy and time.perf_counter() < end:
            ready = selector.select(ANSWER_SECONDS_MAX)
            if not ready:
                raise ConnectionError(f"no answer in {ANSWER_SECONDS_MAX:.0f} s")
            for key, _ in ready:
                lane = key.data
                lane.receive(buffer)
                if lane.done:
                    selector.unregister(lane.socket)
                    busy -= 1


if __name__ == "__main__":
    serve(run)
