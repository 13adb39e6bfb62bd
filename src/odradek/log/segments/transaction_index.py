"""The entries of ``.txnindex``: the aborted transactions whose markers lie in a segment. Pure.

An entry, big-endian, in the order of markers::

    0   version             int16     0
    2   producer id         int64
    10  first offset        int64     of the transaction's first record
    18  last offset         int64     of the marker that aborted it
    26  last stable offset  int64     when the marker was written: nothing below it was of an open transaction

A segment without aborted transactions has no such file. A transaction may have begun segments before its
marker; the last stable offset tells a search when it has gone far enough: entries further on are of
transactions that began at or behind it.
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
    """The content of a file."""
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_aborted(content: Buffer, path: str) -> list[AbortedTransaction]:
    """Read a file's content; ``StorageError`` names ``path`` if it is of another version or cut short."""
    if len(content) % ENTRY_BYTES:
        raise StorageError(f"{path}: {len(content)} bytes are not a whole number of entries")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(content):
        if version != VERSION:
            raise StorageError(f"{path}: an entry has version {version}, not {VERSION}")
        entries.append(AbortedTransaction(*fields))
    return entries


def check_aborted(entries: Sequence[AbortedTransaction], base_offset: int, path: str) -> None:
    """``StorageError`` if these cannot be the entries of a segment that begins at ``base_offset``."""
    last_offset = base_offset - 1
    for entry in entries:
        if entry.last_offset <= last_offset:
            raise StorageError(f"{path}: an entry ends at {entry.last_offset}, not behind {last_offset}")
        last_offset = entry.last_offset
        if entry.producer_id < 0 or not 0 <= entry.first_offset < last_offset:
            raise StorageError(f"{path}: no transaction can be {entry}")
        if not 0 <= entry.last_stable_offset <= last_offset + 1:
            raise StorageError(f"{path}: {entry} has a last stable offset behind its marker")


def kept_before(entries: Sequence[AbortedTransaction], offset: int) -> list[AbortedTransaction]:
    """What is left when a segment is cut at ``offset``."""
    return list(entries[: bisect_left(entries, offset, key=attrgetter("last_offset"))])


def overlapping(
    entries: Sequence[AbortedTransaction], from_offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """The transactions that have records from ``from_offset`` on and below ``end_offset``, and whether later
    segments can have no more of them."""
    found = []
    for entry in entries[bisect_left(entries, from_offset, key=attrgetter("last_offset")) :]:
        if entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return found, True
    return found, False
