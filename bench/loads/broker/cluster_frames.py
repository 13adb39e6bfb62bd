"""Frames about a whole cluster, written from the protocol's definition, and decoders of their responses.

  CreateTopics v2     [name, partitions, replication factor, [], []], timeout, validate only
  Metadata v4         null: all topics, or a list; auto creation

All with header v1, as in `frames.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from bench.loads.broker.frames import framed, string
from bench.loads.broker.response_fields import ResponseFields

REPLICAS = 3
CREATE_TIMEOUT_MS = 120_000
HEAD_BYTES = 8
"""Length and correlation id, before every response."""
NULL_ARRAY = struct.pack(">i", -1)


class PartitionState(NamedTuple):
    leader: int
    isr_count: int


class ClusterState(NamedTuple):
    """Brokers and partitions of a Metadata response. A leader without a listener here counts as none (-1)."""

    brokers: frozenset[int]
    controller: int
    partitions: dict[tuple[str, int], PartitionState]

    def led_by(self, leaders: Sequence[int]) -> int:
        """Return the number of partitions that one of these brokers leads."""
        return sum(partition.leader in leaders for partition in self.partitions.values())

    def in_sync(self, count: int) -> int:
        """Return the number of partitions with at least so many replicas in sync."""
        return sum(partition.isr_count >= count for partition in self.partitions.values())


def create_topics(topics: dict[str, int]) -> bytes:
    """CreateTopics v2 with the partitions of each topic."""
    body = struct.pack(">i", len(topics))
    for name, partitions in topics.items():
        body += string(name.encode()) + struct.pack(">ihii", partitions, REPLICAS, 0, 0)
    return framed(19, 2, body + struct.pack(">ib", CREATE_TIMEOUT_MS, 0))


def decode_create_topics(response: bytes) -> dict[str, int]:
    """Return the error code of each topic."""
    fields = ResponseFields(response[HEAD_BYTES + 4 :])
    errors = {}
    for _ in range(fields.int32()):
        name = fields.string().decode()
        errors[name] = fields.int16()
        fields.string()
    return errors


def describe(topics: Sequence[str] | None = None) -> bytes:
    """Metadata v4 of these topics, or of all."""
    body = NULL_ARRAY
    if topics is not None:
        body = struct.pack(">i", len(topics)) + b"".join(string(topic.encode()) for topic in topics)
    return framed(3, 4, body + b"\0")


def decode_describe(response: bytes) -> ClusterState:
    fields = ResponseFields(response[HEAD_BYTES + 4 :])
    brokers = set()
    for _ in range(fields.int32()):
        brokers.add(fields.int32())
        fields.string(), fields.int32(), fields.string()
    fields.string()
    controller = fields.int32()
    partitions = {}
    for _ in range(fields.int32()):
        fields.int16()
        topic = fields.string().decode()
        fields.int8()
        for _ in range(fields.int32()):
            error, number, leader = fields.int16(), fields.int32(), fields.int32()
            fields.int32s()
            isr_count = len(fields.int32s())
            partitions[topic, number] = PartitionState(leader if error in (0, 9) else -1, isr_count)
    return ClusterState(frozenset(brokers), controller, partitions)
