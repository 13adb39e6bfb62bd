"""Searches in a log that would wait for the disk, done beforehand on a thread.

The event loop owns a log and its segments; a thread may touch files only. So a search that finds something
missing from memory is first run on copies of the segments, which share their files and nothing else. It
leaves the pages it looked at in memory, and what it opened and learned with the segments; the loop then
searches for itself. What goes wrong in a rehearsal (segments may be removed or replaced meanwhile) is left to
the loop's search to tell.

An index that a copy finds wrong is built anew by the thread. The segment goes by it at once if it is still
part of the log, and it is written to its file by another thread after that.

A copy reads indexes instead of mapping them: a mapped file that is cut by another ends the process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.log_segment import (
    WINDOW_BYTES,
    CorruptIndex,
    LogSegment,
    OpenSegments,
    SegmentContext,
    TimestampOffset,
    WouldBlock,
)
from odradek.log.segments.log_segments import AbortedTransactionsNotLoaded, LogSegments
from odradek.log.segments.segment_format import LOG, OFFSET_INDEX, OFFSETS, TIME_INDEX, IndexBuilder
from odradek.model.errors import BrokerError, ErrorCode, StorageError

T = TypeVar("T")

SEGMENTS_READ_MAX: Final = 2
"""A read looks into the segment that holds its offset and, if nothing follows there, into the next."""

SEGMENTS_AT_ONCE: Final = 64
"""Segments that a thread looks into for one question about several."""

PAGE_IN_ATTEMPTS_MAX: Final = 3
"""Rehearsals of a read before it waits after all, and attempts of a search before it gives up."""

COPIES_OPEN_MAX: Final = 2
"""A copy holds whole indexes in memory: few at a time."""

_NO_END: Final = 2**63 - 1


class SegmentCopy(LogSegment):
    """Another view of a segment's files, for a thread. It changes no file."""

    __slots__ = ("_has_read_offsets", "_is_active", "rebuilt")

    def __init__(self, original: LogSegment, place: SegmentContext) -> None:
        super().__init__(place, original.base_offset, original.size)
        self.rebuilt: IndexBuilder | None = None
        self._has_read_offsets = False
        self._is_active = isinstance(original, ActiveSegment)
        if isinstance(original, ActiveSegment):
            self._file = original.log_file
            self._offsets = bytes(original.offset_index())
            self._times = bytes(original.time_index())
            self._largest = original.largest()
            self._aborted = list(original.aborted())
        else:
            self._file = original._file
            self._largest = original._largest
            self._modified_ms = original._modified_ms
            self._aborted = original._aborted
            if original.has_unwritten:
                self._offsets, self._times = original._offsets, original._times
                self._unwritten = original._unwritten

    def _map(self, suffix: str) -> tuple[memoryview, None]:
        self._has_read_offsets |= suffix == OFFSET_INDEX
        try:
            return memoryview(self.context.files.read_whole(self.path(suffix))), None
        except FileNotFoundError:
            return memoryview(b"?"), None

    def rebuild_indexes(self) -> None:
        """Build the indexes in memory. Those of a segment that still grows are there, and never wrong."""
        if self._is_active:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"no batch can be found in {self.path(LOG)}")
        self.rebuilt = self.scan().indexes
        self.rebuilt.add_largest_timestamp()
        self.adopt_indexes(self.rebuilt)

    def let_go(self) -> None:
        aborted = self._aborted
        super().let_go()
        self._aborted = aborted  # it is what this copy was made for

    def give_back(self, original: LogSegment) -> None:
        """Spare the segment what was found here."""
        if self._is_active or isinstance(original, ActiveSegment):
            return
        if self.rebuilt is not None:
            original.adopt_indexes(self.rebuilt)
        original._largest = original._largest or self._largest
        if original._modified_ms is None:
            original._modified_ms = self._modified_ms
        if original._aborted is None:
            original._aborted = self._aborted
        if original._file is None:
            original._file = self._file
        if original._file is not None or original._offsets is not None or original._aborted:
            original.context.opened.use(original)
        if self._has_read_offsets:
            self._map_for(original)

    def _map_for(self, original: LogSegment) -> None:
        """Map the index that was read here: its pages are in memory. What is wrong, a search will tell."""
        original.context.may_block = False
        try:
            original.offset_index()
        except (OSError, CorruptIndex):
            return
        finally:
            original.context.may_block = True


def is_cached(segments: LogSegments, offset: int) -> bool:
    """Whether an offset can be searched for without waiting for a disk."""
    segment = segments[_number_holding(segments, offset)]
    if not isinstance(segment, ActiveSegment) and not _is_open_at_hand(segment):
        return False
    start, end = _searched(segment, offset)
    return segment.file().is_cached(start, end - start)


def _number_holding(segments: LogSegments, offset: int) -> int:
    return max(bisect_right(segments._bases, offset) - 1, 0)


def _is_open_at_hand(segment: LogSegment) -> bool:
    """Whether the files of a segment at rest are open, and its index is in memory."""
    if segment._file is None or segment._offsets is None:
        return False
    index = segment._offsets_file
    return index is None or index.is_cached(0, len(segment._offsets))


def _searched(segment: LogSegment, offset: int) -> tuple[int, int]:
    """The range of the log file in which batches are looked at: from one entry of the index to the next."""
    index = segment.offset_index()
    number = OFFSETS.floor(index, offset - segment.base_offset)
    start = OFFSETS.entry(index, number)[1] if number >= 0 else 0
    is_last = number + 1 == OFFSETS.count(index)
    end = segment.size if is_last else OFFSETS.entry(index, number + 1)[1] + WINDOW_BYTES
    return start, min(end, segment.size)


async def read(segments: LogSegments, offset: int, look: Callable[[bool], T]) -> T:
    """Read from this offset on; ``look`` is told whether it may wait. Rehearsed as often as need be."""
    for _ in range(PAGE_IN_ATTEMPTS_MAX):
        try:
            return look(False)
        except WouldBlock as why:
            await load(segments, offset, why)
    return look(True)


async def load(segments: LogSegments, offset: int, why: WouldBlock) -> None:
    """Have in memory what a read from this offset said it would have waited for."""
    if isinstance(why, CorruptIndex):
        with suppress(OSError, BrokerError):
            await _run_on_copies(segments, [why.segment], lambda copies: copies[0].rebuild_indexes())
    elif isinstance(why, AbortedTransactionsNotLoaded):
        await _read_aborted(segments, why.segment, why.end_offset)
    else:
        await load_for_read(segments, offset)


async def _read_aborted(segments: LogSegments, first: LogSegment, end_offset: int) -> None:
    """Know the aborted transactions from a segment on that have records below an offset."""
    number = _number_holding(segments, first.base_offset)
    chosen = [segments[at] for at in range(number, len(segments))[:SEGMENTS_AT_ONCE]]
    with suppress(OSError, BrokerError, StorageError):
        await _run_on_copies(
            segments,
            chosen,
            lambda copies: copies.aborted_transactions_between(first.base_offset, end_offset),
        )


async def read_times(segments: LogSegments, chosen: Sequence[LogSegment]) -> None:
    """Know how new these segments are: what retention and compaction go by.

    Raises OSError if their files cannot be read.
    """
    some = [segment for segment in chosen if not segment.is_timed][:SEGMENTS_AT_ONCE]
    if some:
        await _run_on_copies(segments, some, lambda copies: [copy.newest_ms() for copy in copies])


async def load_for_read(segments: LogSegments, offset: int) -> None:
    """Have in memory what a read from this offset looks at before it knows what to send."""
    first = _number_holding(segments, offset)
    chosen = [segments[number] for number in range(first, len(segments))[:SEGMENTS_READ_MAX]]
    with suppress(OSError, BrokerError):
        await _run_on_copies(segments, chosen, lambda copies: copies.read(offset, 1, _NO_END, _NO_END, True))


async def find_time(segments: LogSegments, timestamp: int, from_offset: int) -> TimestampOffset | None:
    """The first record at ``from_offset`` or later that is not older than ``timestamp``, found on a thread.

    Looks into few segments: those whose times are not known yet, once, and those that reach the time. Raises
    OSError or BrokerError if they cannot be read.
    """
    return await _persistently(lambda: _find_time(segments, timestamp, from_offset))


async def _find_time(segments: LogSegments, timestamp: int, from_offset: int) -> TimestampOffset | None:
    while untimed := segments.untimed(timestamp):
        await _run_on_copies(segments, untimed, lambda copies: [copy.newest_ms() for copy in copies])
    chosen = segments.reaching(timestamp, -1, SEGMENTS_READ_MAX)
    while chosen:
        found = await _run_on_copies(
            segments, chosen, lambda copies: copies.find_time(timestamp, from_offset)
        )
        if found is not None:
            return found
        chosen = segments.reaching(timestamp, chosen[-1].base_offset, SEGMENTS_READ_MAX)
    return None


async def search(segments: LogSegments, look: Callable[[LogSegments], T]) -> T:
    """Search copies of all segments on a thread. Raises OSError or BrokerError if they cannot be read."""
    return await _persistently(lambda: _run_on_copies(segments, list(segments), look))


async def _persistently(work: Callable[[], Awaitable[T]]) -> T:
    """Search again if a file was gone: its segment may have left the log meanwhile."""
    for _ in range(PAGE_IN_ATTEMPTS_MAX):
        with suppress(FileNotFoundError):
            return await work()
    return await work()


async def _run_on_copies(
    segments: LogSegments, chosen: Sequence[LogSegment], search: Callable[[LogSegments], T]
) -> T:
    """Run a search on copies of the chosen segments, away from the loop, and give what it found."""
    of = chosen[0].context
    opened = OpenSegments(COPIES_OPEN_MAX)
    place = SegmentContext(of.files, of.directory, opened, of.index_interval_bytes, of.index_bytes_max)
    copies = [SegmentCopy(one, place) for one in chosen]
    rebuilt: list[tuple[LogSegment, IndexBuilder]] = []
    try:
        return await of.files.offload_read(lambda: search(LogSegments(list(copies))))
    finally:
        for copy, original in zip(copies, chosen, strict=True):
            if segments[_number_holding(segments, original.base_offset)] is original:
                copy.give_back(original)
                if copy.rebuilt is not None:
                    rebuilt.append((original, copy.rebuilt))
        for original, indexes in rebuilt:
            await _write_indexes(original, indexes)


async def _write_indexes(segment: LogSegment, indexes: IndexBuilder) -> None:
    """Replace the index files of a segment, unless somebody else is about to."""
    place, base_offset = segment.context, segment.base_offset
    contents = [(segment.path(OFFSET_INDEX), indexes.offsets), (segment.path(TIME_INDEX), indexes.times)]
    log_path = segment.path(LOG)

    def work() -> None:
        for path, index in contents:
            if place.files.exists(log_path):
                place.files.write_whole(path, bytes(index))

    if base_offset not in place.rebuilding:
        place.rebuilding.add(base_offset)
        try:
            # A full disk, or a segment on its way out: they are in memory, and will be built again.
            with suppress(OSError):
                await place.files.offload(work)
        finally:
            place.rebuilding.discard(base_offset)
