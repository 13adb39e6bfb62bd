"""Entries of ``.txnindex``: the aborted transactions whose markers are in a segment. Pure.

Entry layout, big-endian, in marker order::

    0   version             int16     0
    2   producer id         int64
    10  first offset        int64     of the transaction's first record
    18  last offset         int64     of the marker that aborted it
    26  last stable offset  int64     when the marker was written

A segment without aborted transactions has no such file. A transaction may start segments before its marker.
The last stable offset ends a search: later entries belong to transactions that start at or after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from odradek.model.errors import StorageError

VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size

Buffer = bytes | bytearray | memoryview


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of the file."""
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_aborted(content: Buffer, path: str) -> list[AbortedTransaction]:
    """Parse a file's content; raises ``StorageError`` on another version or a partial entry."""
    if len(content) % ENTRY_BYTES:
        raise StorageError(f"{path}: size must be a multiple of {ENTRY_BYTES} bytes, got {len(content)}")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(content):
        if version != VERSION:
            raise StorageError(f"{path}: entry version must be {VERSION}, got {version}")
        entries.append(AbortedTransaction(*fields))
    return entries


def check_aborted(entries: Sequence[AbortedTransaction], base_offset: int, path: str) -> None:
    """Raise ``StorageError`` unless these can be the entries of a segment with this base offset."""
    last_offset = base_offset - 1
    for entry in entries:
        if entry.last_offset <= last_offset:
            raise StorageError(f"{path}: last offset must be > {last_offset}, got {entry.last_offset}")
        last_offset = entry.last_offset
        if entry.producer_id < 0 or not 0 <= entry.first_offset < last_offset:
            raise StorageError(f"{path}: invalid entry {entry}")
        if not 0 <= entry.last_stable_offset <= last_offset + 1:
            raise StorageError(
                f"{path}: last stable offset must be within 0 to {last_offset + 1}, got {entry}"
            )


def entries_before(entries: Sequence[AbortedTransaction], offset: int) -> list[AbortedTransaction]:
    """Return the entries that remain when a segment is truncated to ``offset``."""
    return list(entries[: bisect_left(entries, offset, key=attrgetter("last_offset"))])


def overlapping_transactions(
    entries: Sequence[AbortedTransaction], from_offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Return the transactions with records in [``from_offset``, ``end_offset``), and whether the result is
    complete without later segments."""
    overlapping = []
    for entry in entries[bisect_left(entries, from_offset, key=attrgetter("last_offset")) :]:
        if entry.first_offset < end_offset:
            overlapping.append(entry)
        if entry.last_stable_offset >= end_offset:
            return overlapping, True
    return overlapping, False
