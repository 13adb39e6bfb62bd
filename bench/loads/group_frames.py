"""The frames of group membership, written from the protocol's definition, and what their answers say.

  FindCoordinator v2  key, key type
  JoinGroup v5        group, session ms, rebalance ms, member, instance, protocol type, [name, metadata]
  SyncGroup v3        group, generation, member, instance, [member, assignment]
  Heartbeat v3        group, generation, member, instance

All with header v1, as in `frames.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from bench.loads.frames import framed, string

SESSION_MS = 45_000
REBALANCE_MS = 300_000
PROTOCOL = b"range"
NO_STRING = struct.pack(">h", -1)
HEAD_BYTES = 8
"""Length and correlation id, before every answer."""


class Joined(NamedTuple):
    """An answer to JoinGroup; only the leader is told who the members are."""

    error_code: int
    generation: int
    leader: str
    member: str
    members: list[str]


def find_coordinator(group: str) -> bytes:
    return framed(10, 2, string(group.encode()) + b"\0")


def found(answer: bytes) -> int:
    """The error code."""
    return int(struct.unpack_from(">h", answer, HEAD_BYTES + 4)[0])


def join(group: str, member: str, topic: str) -> bytes:
    body = string(group.encode()) + struct.pack(">ii", SESSION_MS, REBALANCE_MS)
    body += string(member.encode()) + NO_STRING + string(b"consumer")
    body += struct.pack(">i", 1) + string(PROTOCOL) + _bytes(_subscription(topic))
    return framed(11, 5, body)


def joined(answer: bytes) -> Joined:
    code, generation = struct.unpack_from(">hi", answer, HEAD_BYTES + 4)
    _, at = _read_string(answer, HEAD_BYTES + 10)
    leader, at = _read_string(answer, at)
    member, at = _read_string(answer, at)
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    members = []
    for _ in range(count):
        name, at = _read_string(answer, at)
        _, at = _read_string(answer, at)
        at += 4 + struct.unpack_from(">i", answer, at)[0]
        members.append(name)
    return Joined(code, generation, leader, member, members)


def sync(group: str, generation: int, member: str, topic: str, members: Sequence[str]) -> bytes:
    """With an assignment of one partition for each of these members."""
    body = string(group.encode()) + struct.pack(">i", generation) + string(member.encode()) + NO_STRING
    body += struct.pack(">i", len(members))
    for partition, name in enumerate(members):
        body += string(name.encode()) + _bytes(_assignment(topic, partition))
    return framed(14, 3, body)


def heartbeat(group: str, generation: int, member: str) -> bytes:
    body = string(group.encode()) + struct.pack(">i", generation) + string(member.encode()) + NO_STRING
    return framed(12, 3, body)


def answered(answer: bytes) -> int:
    """The error code of SyncGroup or Heartbeat."""
    return int(struct.unpack_from(">h", answer, HEAD_BYTES + 4)[0])


def _subscription(topic: str) -> bytes:
    return struct.pack(">hi", 1, 1) + string(topic.encode()) + struct.pack(">ii", -1, 0)


def _assignment(topic: str, partition: int) -> bytes:
    return struct.pack(">hi", 1, 1) + string(topic.encode()) + struct.pack(">iii", 1, partition, -1)


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _read_string(answer: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", answer, at)
    at += 2
    return ("", at) if size < 0 else (answer[at : at + size].decode(), at + size)
