"""Searches that would block on disk I/O, run on a thread first.

The event loop owns a log and its segments; a thread may only access files. A search that needs data which is
not in memory is therefore first run on copies of the segments, which share nothing but the files. The thread
leaves the pages it read in the page cache, and the files it opened and the timestamps it read are handed to
the segments; then the loop repeats the search. Errors on the thread (segments may be removed or replaced
meanwhile) are ignored: the loop's search reports them.

If a copy finds a corrupt index, the thread rebuilds it. A segment that is still part of the log uses the
rebuilt index immediately; another thread then writes the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from odradek.log.segments.log_segment import (
    CorruptIndex,
    LogSegment,
    NotCached,
    OpenSegments,
    SegmentContext,
    TimestampOffset,
    WouldBlock,
)
from odradek.log.segments.log_segments import AbortedTransactionsNotLoaded, LogSegments
from odradek.log.segments.segment_copy import SegmentCopy
from odradek.log.segments.segment_format import LOG, OFFSET_INDEX, TIME_INDEX, IndexBuilder
from odradek.model.errors import BrokerError, StorageError

T = TypeVar("T")

SEGMENTS_READ_MAX: Final = 2
"""A read accesses the segment that contains its offset and, at the end of it, the next one."""

SEGMENTS_AT_ONCE: Final = 64
"""Segments that one thread call reads from."""

PAGE_IN_ATTEMPTS_MAX: Final = 3
"""Thread runs of a read before it blocks, and attempts of a search before it fails."""

COPIES_OPEN_MAX: Final = 2
"""Open copies; each holds complete indexes in memory."""

_NO_END: Final = 2**63 - 1


def _index_of(segments: LogSegments, offset: int) -> int:
    return max(bisect_right(segments._base_offsets, offset) - 1, 0)


async def read(segments: LogSegments, look: Callable[[bool], T]) -> T:
    """Call ``look(may_block)`` without blocking if possible, paging in what it needs in between."""
    for _ in range(PAGE_IN_ATTEMPTS_MAX):
        try:
            return look(False)
        except WouldBlock as error:
            await load(segments, error)
    return look(True)


async def load(segments: LogSegments, error: WouldBlock) -> None:
    """Load what a read would have blocked on."""
    if isinstance(error, CorruptIndex):
        with suppress(OSError, BrokerError):
            await _run_on_copies(segments, [error.segment], lambda copies: copies[0].rebuild_indexes())
    elif isinstance(error, AbortedTransactionsNotLoaded):
        await _read_aborted(segments, error.segment, error.end_offset)
    elif isinstance(error, NotCached):
        await load_for_read(segments, error.offset)


async def _read_aborted(segments: LogSegments, first: LogSegment, end_offset: int) -> None:
    """Load the aborted transactions from segment ``first`` that have records below ``end_offset``."""
    first_index = _index_of(segments, first.base_offset)
    chosen = [segments[index] for index in range(first_index, len(segments))[:SEGMENTS_AT_ONCE]]
    with suppress(OSError, BrokerError, StorageError):
        await _run_on_copies(
            segments,
            chosen,
            lambda copies: copies.aborted_transactions_between(first.base_offset, end_offset),
        )


async def load_timestamps(segments: LogSegments, chosen: Sequence[LogSegment]) -> None:
    """Load the largest timestamps of these segments, for retention and compaction.

    Raises OSError if their files cannot be read.
    """
    missing = [segment for segment in chosen if not segment.timestamps_loaded][:SEGMENTS_AT_ONCE]
    if missing:
        await _run_on_copies(segments, missing, lambda copies: [copy.largest_timestamp() for copy in copies])


async def load_for_read(segments: LogSegments, offset: int) -> None:
    """Load the index pages and batch headers that a search for ``offset`` accesses."""
    first = _index_of(segments, offset)
    chosen = [segments[number] for number in range(first, len(segments))[:SEGMENTS_READ_MAX]]
    with suppress(OSError, BrokerError):
        await _run_on_copies(segments, chosen, lambda copies: copies.read(offset, 1, _NO_END, _NO_END, True))


async def find_offset_by_timestamp(
    segments: LogSegments, timestamp: int, from_offset: int
) -> TimestampOffset | None:
    """Return the first record at or after ``from_offset`` with a timestamp >= ``timestamp``, using a thread.

    Reads from few segments: once from those whose timestamps are not loaded, and from those that reach the
    timestamp. Raises OSError or BrokerError if they cannot be read.
    """
    return await _retry_if_removed(lambda: _find_offset_by_timestamp(segments, timestamp, from_offset))


async def _find_offset_by_timestamp(
    segments: LogSegments, timestamp: int, from_offset: int
) -> TimestampOffset | None:
    while without_timestamps := segments.without_timestamps(timestamp):
        await _run_on_copies(
            segments, without_timestamps, lambda copies: [copy.largest_timestamp() for copy in copies]
        )
    chosen = segments.candidates_for_timestamp(timestamp, -1, SEGMENTS_READ_MAX)
    while chosen:
        record = await _run_on_copies(
            segments, chosen, lambda copies: copies.find_offset_by_timestamp(timestamp, from_offset)
        )
        if record is not None:
            return record
        chosen = segments.candidates_for_timestamp(timestamp, chosen[-1].base_offset, SEGMENTS_READ_MAX)
    return None


async def search(segments: LogSegments, look: Callable[[LogSegments], T]) -> T:
    """Run ``look`` on copies of all segments on a thread. Raises OSError or BrokerError on a failed read."""
    return await _retry_if_removed(lambda: _run_on_copies(segments, list(segments), look))


async def _retry_if_removed(work: Callable[[], Awaitable[T]]) -> T:
    """Retry if a file is gone: its segment may have been removed from the log meanwhile."""
    for _ in range(PAGE_IN_ATTEMPTS_MAX):
        with suppress(FileNotFoundError):
            return await work()
    return await work()


async def _run_on_copies(
    segments: LogSegments, chosen: Sequence[LogSegment], search: Callable[[LogSegments], T]
) -> T:
    """Run a search on copies of the chosen segments on a thread, and return its result."""
    shared = chosen[0].context
    opened = OpenSegments(COPIES_OPEN_MAX)
    context = SegmentContext(
        shared.files, shared.directory, opened, shared.index_interval_bytes, shared.index_bytes_max
    )
    copies = [SegmentCopy(segment, context) for segment in chosen]
    rebuilt: list[tuple[LogSegment, IndexBuilder]] = []
    try:
        return await shared.files.offload_read(lambda: search(LogSegments(list(copies))))
    finally:
        for copy, original in zip(copies, chosen, strict=True):
            if segments[_index_of(segments, original.base_offset)] is original:
                copy.transfer_to(original)
                if copy.rebuilt is not None:
                    rebuilt.append((original, copy.rebuilt))
        for original, indexes in rebuilt:
            await _write_indexes(original, indexes)


async def _write_indexes(segment: LogSegment, indexes: IndexBuilder) -> None:
    """Rewrite the index files of a segment, unless that is in progress already."""
    context, base_offset = segment.context, segment.base_offset
    contents = [(segment.path(OFFSET_INDEX), indexes.offsets), (segment.path(TIME_INDEX), indexes.times)]
    log_path = segment.path(LOG)

    def work() -> None:
        for path, index in contents:
            if context.files.exists(log_path):
                context.files.write_whole(path, bytes(index))

    if base_offset not in context.rebuilding:
        context.rebuilding.add(base_offset)
        try:
            # A full disk or a removed segment: the indexes are in memory and can be rebuilt.
            with suppress(OSError):
                await context.files.offload(work)
                segment.release_indexes()  # read again, they need less memory
        finally:
            context.rebuilding.discard(base_offset)
