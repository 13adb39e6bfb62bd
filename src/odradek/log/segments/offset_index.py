"""The offset index of a sealed segment, kept for lookups that need no system call.

An index of one page is kept whole. Of a larger one only the first entry of each page is kept, and the page
that was used last: a consumer reads some two megabytes of batches, or more, before it needs the next page.
An index is not mapped, since a page fault would make the event loop wait for the disk unnoticed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from odradek.log.segments.segment_format import OFFSETS, Buffer
from odradek.ports.files import File

PAGE_BYTES: Final = 4096

Entry = tuple[int, int]


class OffsetIndex:
    """Entries of an index file, which must not change meanwhile. Without a file, all of them are kept."""

    __slots__ = ("_file", "_first_positions", "_first_relatives", "_page", "_page_number", "_size_bytes")

    def __init__(self, content: Buffer, file: File | None = None) -> None:
        self._size_bytes = len(content)
        self._first_relatives = array("i")
        self._first_positions = array("i")
        self._page_number = 0
        self._page = content
        self._file: File | None = None
        if file is not None and len(content) > PAGE_BYTES:
            self._file = file
            self._page = bytes(memoryview(content)[:PAGE_BYTES])
            for start in range(0, len(content), PAGE_BYTES):
                relative, position = OFFSETS.pair.unpack_from(content, start)
                self._first_relatives.append(relative)
                self._first_positions.append(position)

    @property
    def kept_bytes(self) -> int:
        """Bytes of entries in memory."""
        return len(self._page) + OFFSETS.entry_bytes * len(self._first_relatives)

    def copy(self) -> OffsetIndex:
        """Return an index with its own page, for use on a thread."""
        index = OffsetIndex(self._page)
        index._size_bytes = self._size_bytes
        index._file = self._file
        index._first_relatives, index._first_positions = self._first_relatives, self._first_positions
        index._page_number = self._page_number
        return index

    def load_page(self, relative: int, may_block: bool) -> bool:
        """Load the page for ``lookup``. False if that would wait for the disk and must not."""
        if self._file is None:
            return True
        number = max(bisect_right(self._first_relatives, relative) - 1, 0)
        if number == self._page_number:
            return True
        start = number * PAGE_BYTES
        size_bytes = min(PAGE_BYTES, self._size_bytes - start)
        read = self._file.read_at if may_block else self._file.read_cached
        page: bytes | None = read(start, size_bytes)
        if page is None:
            return False
        self._page, self._page_number = page, number
        return True

    def lookup(self, relative: int) -> Entry | None:
        """Return the last entry of the loaded page for an offset <= ``relative``."""
        return OFFSETS.lookup(self._page, relative)

    def first_from_position(self, position: int) -> Entry | None:
        """Return an entry at or after ``position``, or None if there is none.

        It is the first one if that is in the loaded page, and otherwise the first of a page.
        """
        number = bisect_left(self._first_positions, position)
        if self._file is None or number - 1 == self._page_number:
            entry = first_entry_from(self._page, position)
            if entry is not None:
                return entry
        if number < len(self._first_positions):
            return self._first_relatives[number], self._first_positions[number]
        return None

    def read_all(self) -> Buffer:
        """Return all entries. Blocks."""
        return self._page if self._file is None else self._file.read_at(0, self._size_bytes)


def first_entry_from(index: Buffer, position: int) -> Entry | None:
    """Return the first entry at or after ``position``."""
    number = bisect_left(range(OFFSETS.count(index)), position, key=lambda n: OFFSETS.entry(index, n)[1])
    return OFFSETS.entry(index, number) if number < OFFSETS.count(index) else None
