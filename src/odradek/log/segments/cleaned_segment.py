"""A segment written by the log cleaner, until it replaces its source segments.

Its files have three names in turn, so that recovery after a crash is unambiguous at every step:

- ``.cleaned`` while they are written: recovery deletes them and keeps the old segments;
- ``.swap`` once all of them are synced, the log file last: recovery completes the swap;
- no suffix, after the old segments were renamed to ``.deleted``.

All methods block on disk I/O except ``finish_swap``, which only renames.
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
    """Index data of consecutive batches."""

    size_bytes: int
    last_offset: int
    last_batch_position: int
    """Start of the last batch, relative to the next append."""
    max_timestamp: int
    offset_of_max_timestamp: int
    """Last offset of the first batch with the max timestamp."""


class CleanedSegment:
    def __init__(self, context: SegmentContext, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size = 0
        self._context = context
        self._indexes = context.builder(base_offset)
        self._file = context.files.open(self._path(LOG, CLEANED), create=True)
        self._file.truncate(0)

    def append(self, batches: Buffer) -> None:
        """Append complete batches that were indexed with ``index``."""
        if self.size + len(batches) > POSITION_MAX:
            raise BrokerError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"size of {self._path(LOG, '')} must be <= {POSITION_MAX}, got {self.size + len(batches)}",
            )
        self._file.append(batches)
        self.size += len(batches)

    def index(self, run: BatchRun) -> None:
        """Index batches of the next ``append``; they get at most one entry."""
        indexes = self._indexes
        if run.max_timestamp > indexes.max_timestamp:
            indexes.max_timestamp = run.max_timestamp
            indexes.offset_of_max_timestamp = run.offset_of_max_timestamp
        indexes.add(run.last_offset, NO_TIMESTAMP, self.size + run.last_batch_position, run.size_bytes)

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> None:
        """Write the indexes and sync all files.

        ``modified_ms`` becomes the modification time of the log file: that of the newest source segment.
        """
        if aborted:
            self._write(TRANSACTION_INDEX, encode_aborted(aborted))
        self._indexes.add_max_timestamp()
        for suffix, index in ((OFFSET_INDEX, self._indexes.offsets), (TIME_INDEX, self._indexes.times)):
            self._write(suffix, index)
        self._file.sync()
        self._file.close()
        self._context.files.set_modified_ms(self._path(LOG, CLEANED), modified_ms)

    def rename_to_swap(self) -> None:
        """Rename to ``.swap``: recovery completes the swap from here on.

        No other rename in the log may happen until ``finish_swap``.
        """
        self._rename(_LOG_LAST, CLEANED, SWAP)
        self._context.files.sync_dir(self._context.directory)

    def _write(self, suffix: str, content: Buffer) -> None:
        file = self._context.files.open(self._path(suffix, CLEANED), create=True)
        file.truncate(0)
        file.append(content)
        file.sync()
        file.close()

    def finish_swap(self) -> LogSegment:
        """Rename the files to their final names, which the old segments no longer use.

        The log file comes first: recovery deletes all files at the base offset of a ``.swap`` log file, and
        would delete indexes renamed before it.
        """
        self._rename(SEGMENT_SUFFIXES, SWAP, "")
        return LogSegment(self._context, self.base_offset, self.size)

    def cancel_swap(self) -> None:
        """Keep recovery from completing the swap, also while ``rename_to_swap`` runs on a thread.

        The caller syncs the directory. ``discard`` deletes the other files.
        """
        for mark in (CLEANED, SWAP):
            with suppress(FileNotFoundError):
                self._context.files.remove(self._path(LOG, mark))

    def discard(self) -> None:
        """Delete all files, in any state.

        A ``.swap`` log file goes first, so that recovery does not use it; the ``.cleaned`` files, which mark
        the swap as unfinished, go last.
        """
        self._file.close()
        for mark in (SWAP, CLEANED):
            for suffix in SEGMENT_SUFFIXES:
                with suppress(FileNotFoundError):
                    self._context.files.remove(self._path(suffix, mark))

    def _rename(self, suffixes: Sequence[str], old_mark: str, new_mark: str) -> None:
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                self._context.files.rename(self._path(suffix, old_mark), self._path(suffix, new_mark))

    def _path(self, suffix: str, mark: str) -> str:
        # Computed each time: the log's directory may have been renamed.
        return self._context.path(self.base_offset, suffix + mark)


def remove_leftovers(files: FileSystem, directory: str) -> None:
    """Delete files left by earlier cleanings.

    Recovery takes a ``.cleaned`` file as the sign that ``.swap`` files at higher offsets are unfinished: a
    stale one would make it discard the only copy of the replaced segments.
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
