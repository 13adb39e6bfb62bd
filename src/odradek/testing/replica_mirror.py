"""The batches of a replica as a checker of invariants has last seen them.

A mirror reads from a log only what was appended since. It stays after its broker has died: the files are
still there, and the broker may be elected when it comes back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.log.log import Log
from odradek.ports.files import FileSlice
from odradek.records.codec import read_headers


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class ReplicaMirror:
    """Batches of one replica. ``matching`` counts the first ones that are known to be the committed ones."""

    __slots__ = ("batches", "leader_epoch", "log_end_offset", "matching")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.leader_epoch = -1
        self.log_end_offset = 0
        self.matching = 0

    def update(self, log: Log, *, reread: bool) -> int:
        """Follow the log; return the index of the first new batch.

        ``reread`` reads all of it: in between it may have been truncated and have grown again.
        """
        batches = self.batches
        if reread:
            current = read_batches(log, log.log_start_offset, log.log_end_offset)
            first_new = _common_length(batches, current)
            batches[first_new:] = current[first_new:]
        else:
            while batches and batches[-1].last_offset >= log.log_end_offset:
                batches.pop()
            first_new = len(batches)
            start = batches[-1].last_offset + 1 if batches else log.log_start_offset
            batches += read_batches(log, start, log.log_end_offset)
        self.log_end_offset = log.log_end_offset
        self.matching = min(self.matching, first_new)
        return first_new


def _common_length(first: list[Batch], other: list[Batch]) -> int:
    length = 0
    for batch, same in zip(first, other, strict=False):
        if batch != same:
            break
        length += 1
    return length


def read_bytes(log: Log, first: int, end: int) -> bytes:
    """Read all batches from ``first`` up to ``end``."""
    data = bytearray()
    while first < end:
        part: Any = log.read(first, 1 << 30, end).data
        chunk = part.read() if isinstance(part, FileSlice) else bytes(part)
        if not chunk:
            break
        data += chunk
        first = read_headers(chunk)[-1].next_offset
    return bytes(data)


def read_batches(log: Log, first: int, end: int) -> list[Batch]:
    if first >= end:
        return []
    return [
        Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc)
        for header in read_headers(read_bytes(log, first, end))
    ]
