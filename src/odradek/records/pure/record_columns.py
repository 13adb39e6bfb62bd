"""Arrow columns of records to send.

Invariant: everything here and its namesake in ``compiled.producer`` return equal results for all
inputs. A column is checked on construction: no row exceeds its buffers.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Literal

from odradek.ports.files import Buffer
from odradek.records.layout import INT32_MAX
from odradek.records.pure.murmur2 import partition_for_key
from odradek.records.pure.record_batch import put_sized, put_varint

Row = tuple[int, Buffer | None, Buffer | None, bytes]
"""Timestamp, key, value, and the encoded headers."""


def _checked_bits(validity: Buffer | None, needed: int) -> memoryview | None:
    if validity is None:
        return None
    bits = memoryview(validity).cast("B")
    if len(bits) * 8 < needed:
        raise ValueError("validity bitmap must cover all rows of the column")
    return bits


def _checked_ends(ends: Buffer, first: int, length: int, wide: bool, size: int) -> memoryview:
    plain = memoryview(ends).cast("B")
    width = 8 if wide else 4
    numbers = plain[: len(plain) // width * width].cast("q" if wide else "i")
    if not length:
        return numbers
    if len(numbers) < first + length + 1:
        raise ValueError("column must have one offset more than rows")
    used = numbers[first : first + length + 1].tolist()
    rising = all(0 <= after - before <= INT32_MAX for before, after in pairwise(used))
    if used[0] < 0 or not rising or used[-1] > size:
        raise ValueError("offsets of a column must not decrease or exceed its content")
    return numbers


def _is_null(bits: memoryview | None, row: int) -> bool:
    return bits is not None and not bits[row >> 3] >> (row & 7) & 1


class BytesColumn:
    """Nullable bytes in Arrow's layout: int32 ends, or int64 if ``wide``, and their content."""

    __slots__ = ("_content", "_ends", "_first", "_validity", "length")

    def __init__(
        self,
        length: int,
        offset: int,
        validity: Buffer | None,
        ends: Buffer,
        content: Buffer | None,
        wide: bool = False,
    ) -> None:
        if length < 0 or offset < 0:
            raise ValueError(f"length and offset must be >= 0, got {length} and {offset}")
        self._content = memoryview(b"" if content is None else content).cast("B")
        self._validity = _checked_bits(validity, offset + length)
        self._ends = _checked_ends(ends, offset, length, wide, len(self._content))
        self._first = offset
        self.length = length

    def cell(self, row: int) -> memoryview | None:
        row += self._first
        if _is_null(self._validity, row):
            return None
        return self._content[self._ends[row] : self._ends[row + 1]]


class NumbersColumn:
    """Nullable int32 or int64, by ``width`` in bytes."""

    __slots__ = ("_first", "_validity", "_values", "length")

    def __init__(
        self, length: int, offset: int, validity: Buffer | None, values: Buffer, width: Literal[4, 8]
    ) -> None:
        if length < 0 or offset < 0 or width not in (4, 8):
            raise ValueError(
                f"length and offset must be >= 0 and width 4 or 8, got {length}, {offset} and {width}"
            )
        plain = memoryview(values).cast("B")
        if len(plain) // width < offset + length:
            raise ValueError("column must have a number per row")
        self._values = plain[: len(plain) // width * width].cast("q" if width == 8 else "i")
        self._validity = _checked_bits(validity, offset + length)
        self._first = offset
        self.length = length

    def number(self, row: int) -> int | None:
        row += self._first
        return None if _is_null(self._validity, row) else int(self._values[row])


class HeadersColumn:
    """Nullable list of pairs per row; its ends are indices into ``names`` and ``values``."""

    __slots__ = ("_ends", "_first", "_validity", "length", "names", "values")

    def __init__(
        self,
        length: int,
        offset: int,
        validity: Buffer | None,
        ends: Buffer,
        names: BytesColumn,
        values: BytesColumn,
        wide: bool = False,
    ) -> None:
        if length < 0 or offset < 0:
            raise ValueError(f"length and offset must be >= 0, got {length} and {offset}")
        self._validity = _checked_bits(validity, offset + length)
        self._ends = _checked_ends(ends, offset, length, wide, min(names.length, values.length))
        self._first = offset
        self.names = names
        self.values = values
        self.length = length

    def pairs(self, row: int) -> list[tuple[memoryview | None, memoryview | None]]:
        row += self._first
        if _is_null(self._validity, row):
            return []
        indices = range(self._ends[row], self._ends[row + 1])
        return [(self.names.cell(index), self.values.cell(index)) for index in indices]


class RecordColumns:
    """Columns of records to send; rows without timestamp get the time of their append."""

    __slots__ = ("_headers", "_keys", "_timestamps", "_values", "length")

    def __init__(
        self,
        length: int,
        values: BytesColumn | None,
        keys: BytesColumn | None = None,
        timestamps: NumbersColumn | None = None,
        headers: HeadersColumn | None = None,
    ) -> None:
        for column in (values, keys, timestamps, headers):
            if column is not None and column.length < length:
                raise ValueError("columns must not be shorter than the table")
        self.length = length
        self._values = values
        self._keys = keys
        self._timestamps = timestamps
        self._headers = headers

    def check_range(self, start: int, stop: int) -> None:
        if start < 0 or stop > self.length:
            raise ValueError(f"row range must be within 0..{self.length}, got {start}..{stop}")

    def load(self, row: int, now_ms: int) -> Row | None:
        """Return an encodable row; ``None`` for a timestamp before the epoch or a header without name."""
        own_timestamp = None if self._timestamps is None else self._timestamps.number(row)
        timestamp = now_ms if own_timestamp is None else own_timestamp
        pairs = [] if self._headers is None else self._headers.pairs(row)
        if timestamp < 0 or any(name is None for name, _ in pairs):
            return None
        tail = bytearray()
        put_varint(tail, len(pairs))
        for name, value in pairs:
            put_sized(tail, name)
            put_sized(tail, value)
        return timestamp, _cell(self._keys, row), _cell(self._values, row), bytes(tail)

    def row(
        self, index: int
    ) -> tuple[int | None, bytes | None, bytes | None, tuple[tuple[str | None, bytes | None], ...]]:
        """Return timestamp, key, value and headers of one row, to send it separately."""
        self.check_range(index, index + 1)
        headers = tuple(
            (None if name is None else str(name, "utf-8", "replace"), None if value is None else bytes(value))
            for name, value in ([] if self._headers is None else self._headers.pairs(index))
        )
        timestamp = None if self._timestamps is None else self._timestamps.number(index)
        key, value = _cell(self._keys, index), _cell(self._values, index)
        return (
            timestamp,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            headers,
        )


def _cell(column: BytesColumn | None, row: int) -> memoryview | None:
    return None if column is None else column.cell(row)


def partitions_for_keys(
    keys: BytesColumn | None,
    partition_count: int,
    partitions: NumbersColumn | None = None,
    ignore_keys: bool = False,
) -> bytearray:
    """Return an int32 partition per row: from ``partitions``, else from the key, else -1 (sticky).

    An invalid partition number becomes 2**31 - 1, at which appending stops.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count must be >= 1, got {partition_count}")
    if keys is None and partitions is None:
        raise ValueError("keys or partitions are required")
    lengths = [column.length for column in (keys, partitions) if column is not None]
    chosen = array("i")
    for row in range(min(lengths)):
        number = None if partitions is None else partitions.number(row)
        key = None if keys is None or ignore_keys else keys.cell(row)
        if number is not None:
            chosen.append(number if 0 <= number <= INT32_MAX else INT32_MAX)
        else:
            chosen.append(-1 if key is None else partition_for_key(key, partition_count))
    return bytearray(chosen.tobytes())
