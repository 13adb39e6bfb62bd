"""A segment that compaction writes, until it takes the place of those that it replaces.

Its files go through three names, and at every moment a start after a crash knows what to do:

- ``.cleaned`` while they are written: they go, and the old segments stay;
- ``.swap`` once all of them are on the disk, the log file last: they are taken, and the old segments go;
- their own, after the old ones were marked as going.

All of this waits for a disk, but for ``take_place``, which only renames.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.log.segments.segment_format import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    POSITION_MAX,
    SEGMENT_SUFFIXES,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Buffer,
    parse_file_name,
)
from odradek.log.segments.transaction_index import AbortedTransaction, encode_aborted
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_TIMESTAMP
from odradek.ports.files import FileSystem

_LOG_LAST = (*(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG), LOG)


class BatchRun(NamedTuple):
    """Some batches, one after the other, as the indexes see them."""

    size_bytes: int
    last_offset: int
    last_batch_position: int
    """Where the last one begins, counted from what is appended next."""
    max_timestamp: int
    offset_of_max_timestamp: int
    """The last offset of the first batch that has it."""


class CleanedSegment:
    def __init__(self, place: SegmentContext, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size = 0
        self._place = place
        self._indexes = place.builder(base_offset)
        self._file = place.files.open(self._path(LOG, CLEANED), create=True)
        self._file.truncate(0)

    def append(self, batches: Buffer) -> None:
        """Add whole batches, which follow on those before, and were told of with ``index``."""
        if self.size + len(batches) > POSITION_MAX:
            raise BrokerError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{self._path(LOG, '')} would grow beyond {POSITION_MAX} bytes",
            )
        self._file.append(batches)
        self.size += len(batches)

    def index(self, run: BatchRun) -> None:
        """Note some of the batches that ``append`` is given next; they get one entry at most."""
        indexes = self._indexes
        if run.max_timestamp > indexes.max_timestamp:
            indexes.max_timestamp = run.max_timestamp
            indexes.offset_of_max_timestamp = run.offset_of_max_timestamp
        indexes.add(run.last_offset, NO_TIMESTAMP, self.size + run.last_batch_position, run.size_bytes)

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> None:
        """Bring all of it to the disk.

        ``modified_ms`` is the age that the new file is given: that of the newest it replaces.
        """
        if aborted:
            self._write(TRANSACTION_INDEX, encode_aborted(aborted))
        self._indexes.add_largest_timestamp()
        for suffix, index in ((OFFSET_INDEX, self._indexes.offsets), (TIME_INDEX, self._indexes.times)):
            self._write(suffix, index)
        self._file.sync()
        self._file.close()
        self._place.files.set_modified_ms(self._path(LOG, CLEANED), modified_ms)

    def promote(self) -> None:
        """Let a start after a crash take it. Until it has its place nobody may change names of the log."""
        self._rename(_LOG_LAST, CLEANED, SWAP)
        self._place.files.sync_dir(self._place.directory)

    def _write(self, suffix: str, content: Buffer) -> None:
        file = self._place.files.open(self._path(suffix, CLEANED), create=True)
        file.truncate(0)
        file.append(content)
        file.sync()
        file.close()

    def take_place(self) -> LogSegment:
        """Give the files their own names, which no other segment has any longer.

        The log file comes first: a start after a crash removes what stands in the place of a ``.swap`` log
        file, and would remove indexes that came before it.
        """
        self._rename(SEGMENT_SUFFIXES, SWAP, "")
        return LogSegment(self._place, self.base_offset, self.size)

    def discard(self) -> None:
        """Leave nothing, whatever was done so far.

        A finished log file goes first, so that no start takes it; what tells that it is not finished, last.
        """
        self._file.close()
        for mark in (SWAP, CLEANED):
            for suffix in SEGMENT_SUFFIXES:
                with suppress(FileNotFoundError):
                    self._place.files.remove(self._path(suffix, mark))

    def _rename(self, suffixes: Sequence[str], old_mark: str, new_mark: str) -> None:
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                self._place.files.rename(self._path(suffix, old_mark), self._path(suffix, new_mark))

    def _path(self, suffix: str, mark: str) -> str:
        # Asked anew each time: the log's directory may have got another name.
        return self._place.path(self.base_offset, suffix + mark)


def remove_leftovers(files: FileSystem, directory: str) -> None:
    """Remove what rounds before this one left.

    A start after a crash takes a ``.cleaned`` file for the sign that no ``.swap`` file behind it is finished:
    an old one would have it throw away the only copy of what it replaces.
    """
    leftovers = [
        name
        for name in files.list_files(directory)
        if (parsed := parse_file_name(name)) and parsed.mark in (CLEANED, SWAP)
    ]
    for name in leftovers:
        files.remove(f"{directory}/{name}")
    if leftovers:
        files.sync_dir(directory)
