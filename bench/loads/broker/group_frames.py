"""Frames of group membership, written from the protocol's definition, and decoders of their responses.

  FindCoordinator v2  key, key type
  JoinGroup v5        group, session ms, rebalance ms, member, instance, protocol type, [name, metadata]
  SyncGroup v3        group, generation, member, instance, [member, assignment]
  Heartbeat v3        group, generation, member, instance
  LeaveGroup v1       group, member

All with header v1, as in `frames.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from bench.loads.broker.frames import framed, string

SESSION_MS = 45_000
REBALANCE_MS = 300_000
PROTOCOL = b"range"
NO_STRING = struct.pack(">h", -1)
HEAD_BYTES = 8
"""Length and correlation id, before every response."""


class JoinResponse(NamedTuple):
    """A JoinGroup response; only the leader gets the members."""

    error_code: int
    generation: int
    leader: str
    member: str
    members: list[str]


def find_coordinator(group: str) -> bytes:
    return framed(10, 2, string(group.encode()) + b"\0")


def find_coordinator_error(response: bytes) -> int:
    return int(struct.unpack_from(">h", response, HEAD_BYTES + 4)[0])


def find_coordinator_port(response: bytes) -> int:
    """Return the port of the coordinator, of a response without an error."""
    _, at = _read_string(response, HEAD_BYTES + 6)
    _, at = _read_string(response, at + 4)
    return int(struct.unpack_from(">i", response, at)[0])


def leave(group: str, member: str) -> bytes:
    return framed(13, 1, string(group.encode()) + string(member.encode()))


def join(group: str, member: str, topic: str) -> bytes:
    body = string(group.encode()) + struct.pack(">ii", SESSION_MS, REBALANCE_MS)
    body += string(member.encode()) + NO_STRING + string(b"consumer")
    body += struct.pack(">i", 1) + string(PROTOCOL) + _bytes(_subscription(topic))
    return framed(11, 5, body)


def decode_join(response: bytes) -> JoinResponse:
    code, generation = struct.unpack_from(">hi", response, HEAD_BYTES + 4)
    _, at = _read_string(response, HEAD_BYTES + 10)
    leader, at = _read_string(response, at)
    member, at = _read_string(response, at)
    (count,) = struct.unpack_from(">i", response, at)
    at += 4
    members = []
    for _ in range(count):
        name, at = _read_string(response, at)
        _, at = _read_string(response, at)
        at += 4 + struct.unpack_from(">i", response, at)[0]
        members.append(name)
    return JoinResponse(code, generation, leader, member, members)


def sync(group: str, generation: int, member: str, topic: str, members: Sequence[str]) -> bytes:
    """SyncGroup with an assignment of one partition per member."""
    body = string(group.encode()) + struct.pack(">i", generation) + string(member.encode()) + NO_STRING
    body += struct.pack(">i", len(members))
    for partition, name in enumerate(members):
        body += string(name.encode()) + _bytes(_assignment(topic, partition))
    return framed(14, 3, body)


def heartbeat(group: str, generation: int, member: str) -> bytes:
    body = string(group.encode()) + struct.pack(">i", generation) + string(member.encode()) + NO_STRING
    return framed(12, 3, body)


def error_code(response: bytes) -> int:
    """Return the error code of SyncGroup or Heartbeat."""
    return int(struct.unpack_from(">h", response, HEAD_BYTES + 4)[0])


def _subscription(topic: str) -> bytes:
    return struct.pack(">hi", 1, 1) + string(topic.encode()) + struct.pack(">ii", -1, 0)


def _assignment(topic: str, partition: int) -> bytes:
    return struct.pack(">hi", 1, 1) + string(topic.encode()) + struct.pack(">iii", 1, partition, -1)


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _read_string(response: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", response, at)
    at += 2
    return ("", at) if size < 0 else (response[at : at + size].decode(), at + size)
