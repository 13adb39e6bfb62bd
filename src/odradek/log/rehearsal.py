"""Searches in a log that would wait for the disk, done beforehand on a thread.

The event loop owns a log and its segments; a thread may touch files only. So a search that finds something
missing from memory is first run on copies of the segments, which share their files and nothing else. It
leaves the pages it looked at in memory, and what it opened with the segments; the loop then searches for
itself. What goes wrong in a rehearsal (segments may be removed or replaced meanwhile) is left to the loop's
search to tell.

A copy reads indexes instead of mapping them: a mapped file that is cut by another ends the process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from odradek.log.active_segment import ActiveSegment
from odradek.log.segment import WINDOW_BYTES, OpenSegments, Segment, SegmentPlace, TimestampOffset
from odradek.log.segment_format import OFFSETS
from odradek.log.segments import SegmentList
from odradek.model.errors import BrokerError, ErrorCode

T = TypeVar("T")

SEGMENTS_READ_MAX: Final = 2
"""A read looks into the segment that holds its offset and, if nothing follows there, into the next."""

COPIES_OPEN_MAX: Final = 2
"""A copy holds whole indexes in memory: few at a time."""

_NO_END: Final = 2**63 - 1


class NotAtHand(Exception):
    """The search would wait for a disk; it is to be rehearsed first."""


class SegmentCopy(Segment):
    """Another view of a segment's files, for a thread. It changes no file."""

    __slots__ = ()

    def __init__(self, original: Segment, place: SegmentPlace) -> None:
        super().__init__(place, original.base_offset, original.size)
        if isinstance(original, ActiveSegment):
            self._file = original.log_file
            self._offsets = bytes(original.offset_index())
            self._times = bytes(original.time_index())
            self._largest = original.largest()
        else:
            self._file = original._file
            self._largest = original._largest

    def _map(self, suffix: str) -> tuple[memoryview, None]:
        try:
            return memoryview(self.place.files.read_whole(self.path(suffix))), None
        except FileNotFoundError:
            return memoryview(b"?"), None

    def rebuild_indexes(self) -> None:
        """Files are written by the loop only."""
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"an index of {self.path('')} is to be rebuilt")

    def give_back(self, original: Segment) -> None:
        """Spare the segment what was found here."""
        if not isinstance(original, ActiveSegment):
            original._largest = original._largest or self._largest
            if original._file is None and self._file is not None:
                original._file = self._file
                original.place.opened.use(original)


def is_at_hand(segments: SegmentList, offset: int) -> bool:
    """Whether an offset can be searched for without waiting for a disk."""
    segment = segments[_number_holding(segments, offset)]
    if not isinstance(segment, ActiveSegment) and not _is_open_at_hand(segment):
        return False
    start, end = _searched(segment, offset)
    return segment.file().is_at_hand(start, end - start)


def _number_holding(segments: SegmentList, offset: int) -> int:
    return max(bisect_right(segments._bases, offset) - 1, 0)


def _is_open_at_hand(segment: Segment) -> bool:
    """Whether the files of a segment at rest are open, and its index is in memory."""
    if segment._file is None or segment._offsets is None:
        return False
    index = segment._offsets_file
    return index is None or index.is_at_hand(0, len(segment._offsets))


def _searched(segment: Segment, offset: int) -> tuple[int, int]:
    """The range of the log file in which batches are looked at: from one entry of the index to the next."""
    index = segment.offset_index()
    number = OFFSETS.floor(index, offset - segment.base_offset)
    start = OFFSETS.entry(index, number)[1] if number >= 0 else 0
    is_last = number + 1 == OFFSETS.count(index)
    end = segment.size if is_last else OFFSETS.entry(index, number + 1)[1] + WINDOW_BYTES
    return start, min(end, segment.size)


async def rehearse_read(segments: SegmentList, offset: int) -> None:
    """Have in memory what a read from this offset looks at before it knows what to send."""
    first = _number_holding(segments, offset)
    chosen = [segments[number] for number in range(first, len(segments))[:SEGMENTS_READ_MAX]]
    with suppress(OSError, BrokerError):
        await _rehearse(segments, chosen, lambda copies: copies.read(offset, 1, _NO_END, _NO_END, True))


async def find_time(
    segments: SegmentList,
    timestamp: int,
    from_offset: int,
    otherwise: Callable[[], TimestampOffset | None],
) -> TimestampOffset | None:
    """The first record at ``from_offset`` or later that is not older than ``timestamp``, found on a thread.

    Looks into few segments: those whose times are not known yet, once, and those that reach the time.
    """
    try:
        untimed = segments.untimed(timestamp)
        if untimed:
            await _rehearse(segments, untimed, lambda copies: [copy.newest_ms() for copy in copies])
        chosen = segments.reaching(timestamp, -1, SEGMENTS_READ_MAX)
        while chosen:
            found = await _rehearse(segments, chosen, lambda copies: copies.find_time(timestamp, from_offset))
            if found is not None:
                return found
            chosen = segments.reaching(timestamp, chosen[-1].base_offset, SEGMENTS_READ_MAX)
    except (OSError, BrokerError):
        return otherwise()
    return None


async def search(segments: SegmentList, look: Callable[[SegmentList], T], otherwise: Callable[[], T]) -> T:
    """What a thread finds in copies of all segments; what the loop finds for itself if that goes wrong."""
    try:
        return await _rehearse(segments, list(segments), look)
    except (OSError, BrokerError):
        return otherwise()


async def _rehearse(
    segments: SegmentList, chosen: Sequence[Segment], search: Callable[[SegmentList], T]
) -> T:
    """Run a search on copies of the chosen segments, away from the loop, and give what it found."""
    of = chosen[0].place
    opened = OpenSegments(COPIES_OPEN_MAX)
    place = SegmentPlace(of.files, of.directory, opened, of.index_interval_bytes, of.index_bytes_max)
    copies = [SegmentCopy(one, place) for one in chosen]
    try:
        return await of.files.offload_read(lambda: search(SegmentList(list(copies))))
    finally:
        for copy, original in zip(copies, chosen, strict=True):
            if segments[_number_holding(segments, original.base_offset)] is original:
                copy.give_back(original)
