"""The requests of a transaction, encoded by hand, and the error codes of their responses.

All with header v1:

  InitProducerId 1      transactional id, timeout ms
  AddPartitionsToTxn 2  transactional id, producer id, epoch, [topic [partition]]
  AddOffsetsToTxn 2     transactional id, producer id, epoch, group
  Produce 7             transactional id, acks, timeout ms, [topic [partition, records]]
  TxnOffsetCommit 2     transactional id, group, producer id, epoch,
                        [topic [partition, offset, leader epoch, metadata]]
  EndTxn 2              transactional id, producer id, epoch, commits
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.support.raw_connection import header_v1
from tests.support.record_batches import HandMadeBatch, record

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 0, 22, 24, 25, 26, 28
TRANSACTIONAL = 0x10
ALL_REPLICAS = -1
WAIT_MS = 10_000
ABOVE_BODY = 4
"""Size of the correlation id before every response."""


class Identity(NamedTuple):
    """A producer: transactional id, producer id and epoch."""

    transactional_id: str
    producer_id: int
    epoch: int

    def bytes(self) -> bytes:
        return string(self.transactional_id) + struct.pack(">qh", self.producer_id, self.epoch)


def string(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def init_producer_id(transactional_id: str, timeout_ms: int) -> bytes:
    return header_v1(INIT_PRODUCER_ID, 1) + string(transactional_id) + struct.pack(">i", timeout_ms)


def initialised(response: bytes) -> tuple[int, int, int]:
    """Decode error code, producer id and epoch."""
    code, producer_id, epoch = struct.unpack_from(">hqh", response, ABOVE_BODY + 4)
    return code, producer_id, epoch


def add_partitions(producer: Identity, partitions: Sequence[tuple[str, int]]) -> bytes:
    body = struct.pack(">i", len(partitions))
    for topic, partition in partitions:
        body += string(topic) + struct.pack(">ii", 1, partition)
    return header_v1(ADD_PARTITIONS, 2) + producer.bytes() + body


def add_offsets(producer: Identity, group: str) -> bytes:
    return header_v1(ADD_OFFSETS, 2) + producer.bytes() + string(group)


def produce(producer: Identity, batches: Mapping[tuple[str, int], bytes]) -> bytes:
    body = string(producer.transactional_id) + struct.pack(">hii", ALL_REPLICAS, WAIT_MS, len(batches))
    for (topic, partition), records in batches.items():
        body += string(topic) + struct.pack(">iii", 1, partition, len(records)) + records
    return header_v1(PRODUCE, 7) + body


def batch(producer: Identity, sequence: int, values: Sequence[bytes]) -> bytes:
    now_ms = int(time.time() * 1000)
    return HandMadeBatch(
        [record(delta, value, None) for delta, value in enumerate(values)],
        attributes=TRANSACTIONAL,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    ).build()


def commit_offsets(producer: Identity, group: str, topic: str, partition: int, offset: int) -> bytes:
    body = (
        string(producer.transactional_id)
        + string(group)
        + struct.pack(">qh", producer.producer_id, producer.epoch)
    )
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">iiqi", 1, partition, offset, -1) + string("")
    return header_v1(COMMIT_OFFSETS, 2) + body


def end(producer: Identity, commits: bool) -> bytes:
    return header_v1(END, 2) + producer.bytes() + bytes([commits])


def code_of(response: bytes) -> int:
    """Decode the error code of a response that has only one."""
    return int(struct.unpack_from(">h", response, ABOVE_BODY + 4)[0])


def codes_of(response: bytes, *, is_produce: bool = False) -> list[int]:
    """Decode the error codes of the partitions of a Produce or other response."""
    at = ABOVE_BODY if is_produce else ABOVE_BODY + 4
    skipped = 24 if is_produce else 0
    (topics,) = struct.unpack_from(">i", response, at)
    at += 4
    codes = []
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", response, at)
        at += 2 + size
        (partitions,) = struct.unpack_from(">i", response, at)
        at += 4
        for _ in range(partitions):
            codes.append(int(struct.unpack_from(">h", response, at + 4)[0]))
            at += 6 + skipped
    return codes
