"""Sends Metadata, Heartbeat or OffsetCommit requests over plain sockets and counts responses.

Like `requests.py`, but all responses of a connection are equal: the first is decoded and all its error codes
are checked, and every later byte is compared with it. Each connection of a Heartbeat or OffsetCommit
measurement is the only member of its own group, which is stable before the clock starts and left after it
stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.loads.broker import flexible_frames as frames
from bench.loads.broker import group_frames
from bench.loads.broker.exchange import RESPONSE_SECONDS_MAX, connect, send_request
from bench.loads.broker.frames import Exchange
from bench.loads.broker.requests import RECEIVE_BYTES, Lane, drive
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

RETRIABLE = (14, 15, 16)  # the coordinator loads, is not available, or is another
MEMBER_ID_REQUIRED = 79


class Membership(NamedTuple):
    group: str
    generation: int
    member: str


class Request(NamedTuple):
    """A frame, and the decoder that returns all error codes of its response."""

    frame: bytes
    errors: Callable[[bytes], list[int]]


class EqualLane(Lane):
    """A connection on which every response must be equal to the first."""

    def __init__(self, port: int, request: Request, in_flight: int) -> None:
        super().__init__(port, [Exchange(request.frame, ())], in_flight)
        errors = request.errors(self.first_response)
        if not errors or any(errors):
            raise ConnectionError(f"error codes {sorted(set(errors))} in {len(errors)} entries")
        self._expected = self.first_response * (RECEIVE_BYTES // self.response_bytes + 2)

    def _check(self, buffer: memoryview, count: int) -> None:
        if not self._expected.startswith(buffer[:count], self._position):
            raise ConnectionError(f"another response after {self.completed_count} equal ones")


def run(spec: Spec) -> Result:
    with _requests(spec) as requests:
        lanes = [EqualLane(spec["port"], request, spec["in_flight"]) for request in requests]
        buffer = memoryview(bytearray(RECEIVE_BYTES))
        meter = Meter(spec["broker_pid"])
        meter.start()
        end = time.perf_counter() + spec["seconds"]
        for lane in lanes:
            lane.begin(None)
        drive(lanes, buffer, end)
        cost = meter.stop()
        for lane in lanes:
            lane.drain(buffer)
    completed_count = sum(lane.completed_count for lane in lanes)
    return {"requests": completed_count, "response_bytes": lanes[0].response_bytes, **cost.as_result()}


@contextmanager
def _requests(spec: Spec) -> Iterator[list[Request]]:
    """Yield the request of each connection; the groups exist meanwhile."""
    if spec["api"] == "metadata":
        yield [Request(frames.metadata(spec["topics"]), frames.metadata_errors)] * spec["lanes"]
        return
    groups = [f"{spec['group']}-{number}" for number in range(spec["lanes"])]
    members = [_join(spec["port"], group, spec["topic"]) for group in groups]
    try:
        yield [_group_request(spec, membership) for membership in members]
    finally:
        for membership in members:
            _leave(spec["port"], membership)


def _group_request(spec: Spec, membership: Membership) -> Request:
    if spec["api"] == "heartbeat":
        return Request(frames.heartbeat(*membership), frames.heartbeat_errors)
    frame = frames.offset_commit(*membership, spec["topic"], spec["partitions"])
    return Request(frame, frames.offset_commit_errors)


def _join(port: int, group: str, topic: str) -> Membership:
    """Join and sync as the only member."""
    _await_coordinator(port, group)
    with connect(port) as connection:
        joined = group_frames.decode_join(send_request(connection, group_frames.join(group, "", topic)))
        if joined.error_code == MEMBER_ID_REQUIRED:
            frame = group_frames.join(group, joined.member, topic)
            joined = group_frames.decode_join(send_request(connection, frame))
        if joined.error_code or joined.leader != joined.member:
            raise ConnectionError(f"JoinGroup of {group}: error code {joined.error_code}, or not the leader")
        frame = group_frames.sync(group, joined.generation, joined.member, topic, [joined.member])
        if code := group_frames.error_code(send_request(connection, frame)):
            raise ConnectionError(f"SyncGroup of {group}: error code {code}")
    return Membership(group, joined.generation, joined.member)


def _await_coordinator(port: int, group: str) -> None:
    """Wait until FindCoordinator succeeds: the first one creates the offsets topic."""
    deadline = time.monotonic() + RESPONSE_SECONDS_MAX
    with connect(port) as connection:
        while True:
            code = group_frames.find_coordinator_error(
                send_request(connection, group_frames.find_coordinator(group))
            )
            if code == 0:
                return
            if code not in RETRIABLE or time.monotonic() > deadline:
                raise ConnectionError(f"FindCoordinator of {group}: error code {code}")
            time.sleep(0.1)


def _leave(port: int, membership: Membership) -> None:
    with connect(port) as connection:
        send_request(connection, group_frames.leave(membership.group, membership.member))


if __name__ == "__main__":
    serve(run)
