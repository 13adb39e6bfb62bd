"""The two passes of a cleaning, in steps that run on a thread.

``OffsetMapBuilder`` reads the dirty section into the offset map. ``SegmentRewriter`` copies the retained
records of a group of segments to a new one. A step reads about as many bytes as requested and accesses only
files; between steps the event loop decides whether to continue.

No Python runs per record, nor per plain batch: the codec processes those. Batches that are compressed,
transactional, control batches or of an old format are processed one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.log.cleaning.cleaned_transaction_metadata import CleanedTransactionMetadata
from odradek.log.segments.cleaned_segment import BatchRun, CleanedSegment
from odradek.log.segments.log_segment import LogSegment
from odradek.log.segments.segment_format import LOG
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.model.errors import BrokerError, ErrorCode
from odradek.ports.files import File
from odradek.records.batch_filter import filter_batch, put_batch
from odradek.records.codec import OffsetMap, decode_batch, filter_batches, header_at, read_headers
from odradek.records.control_records import ControlRecordType, read_control_type
from odradek.records.layout import LOG_OVERHEAD, BatchHeader

RUN_BYTES: Final = 128 * 1024
"""Bytes filtered per codec call, with one index entry. Less would mean more contention for the interpreter
lock, more would make lookups slower."""


class BatchWindows:
    """Read buffers of a segment's log file that start at a batch, grown if the batch does not fit."""

    def __init__(self, segment: LogSegment, window_bytes: int) -> None:
        self._segment = segment
        self._window_bytes = window_bytes
        self._read_bytes = window_bytes
        self._position = 0
        self._file: File | None = None

    @property
    def is_at_end(self) -> bool:
        return self._position >= self._segment.size

    def read(self) -> bytes:
        if self._file is None:
            self._file = self._segment.context.files.open(self._segment.path(LOG), writable=False)
        read_bytes = min(self._read_bytes, self._segment.size - self._position)
        window = self._file.read_at(self._position, read_bytes)
        if len(window) < read_bytes:
            raise self._corrupt()
        return window

    def advance(self, window: bytes, consumed: int) -> None:
        """Advance by the complete batches that were consumed from the window."""
        self._position += consumed
        self._read_bytes = self._window_bytes
        if consumed == 0:
            self._grow(window)
        if self.is_at_end and self._file is not None:
            self._file.close()

    def _grow(self, window: bytes) -> None:
        """Grow the next window to the size of the batch."""
        size_bytes = int.from_bytes(window[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
        if not len(window) < size_bytes <= self._segment.size - self._position:
            raise self._corrupt()
        self._read_bytes = size_bytes

    def _corrupt(self) -> BrokerError:
        return BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"cannot read a batch at position {self._position} of {self._segment.path(LOG)}",
        )


class OffsetMapBuilder:
    """Fills the offset map from the dirty segments, given with the base offsets of their successors."""

    def __init__(
        self,
        segments: Sequence[tuple[LogSegment, int]],
        offset_map: OffsetMap,
        entries_max: int,
        first_dirty_offset: int,
        transactions: CleanedTransactionMetadata,
        window_bytes: int,
    ) -> None:
        self._ahead = list(reversed(segments))
        self._offset_map = offset_map
        self._entries_max = entries_max
        self._from_offset = first_dirty_offset
        self._transactions = transactions
        self._window_bytes = window_bytes
        self._windows: BatchWindows | None = None
        self._end_offset = 0
        self.is_full = False

    @property
    def is_done(self) -> bool:
        return self.is_full or (self._windows is None and not self._ahead)

    def step(self, size_bytes: int) -> int:
        """Read about ``size_bytes``; return the number of bytes read."""
        read_bytes = 0
        while read_bytes < size_bytes and not self.is_done:
            if self._windows is None:
                segment, self._end_offset = self._ahead.pop()
                self._windows = BatchWindows(segment, self._window_bytes)
            if self._windows.is_at_end:
                # Offsets missing at the end of a segment count as read.
                self._offset_map.update_latest_offset(self._end_offset - 1)
                self._windows = None
                continue
            window = self._windows.read()
            consumed = self._add_batches(window)
            if not self.is_full:
                self._windows.advance(window, consumed)
            read_bytes += max(consumed, 1)
        return read_bytes

    def _add_batches(self, window: bytes) -> int:
        """Add the complete batches of a window; return the bytes consumed, less if the map is full."""
        position = 0
        while True:
            position = self._offset_map.put_batches(window, position, self._from_offset, self._entries_max)
            header = header_at(window, position)
            if header is None:
                return position
            if not self._add_batch(window, header):
                self.is_full = True
                return position
            position = header.end_position

    def _add_batch(self, window: bytes, header: BatchHeader) -> bool:
        if header.is_control:
            self._transactions.may_drop_marker(header, control_type(window, header))
        elif not self._transactions.is_aborted(header):
            return put_batch(window, header, self._offset_map, self._from_offset, self._entries_max)
        if header.last_offset >= self._from_offset:
            self._offset_map.update_latest_offset(header.last_offset)
        return True


class ProducerRetention(NamedTuple):
    """Batches to retain, if only as empty batches, so that producer state survives a restart."""

    last_offsets: array[int]
    """Last offsets of the batches with a producer's last sequence, sorted."""
    marker_epochs: Mapping[int, int]
    """Epochs of producers that have only markers."""

    def must_retain(self, header: BatchHeader) -> bool:
        number = bisect_left(self.last_offsets, header.last_offset)
        if number < len(self.last_offsets) and self.last_offsets[number] == header.last_offset:
            return True
        return header.is_control and self.marker_epochs.get(header.producer_id) == header.producer_epoch


class FilterRules(NamedTuple):
    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int
    """Tombstones of old formats are removed from files last modified by then."""


class SegmentRewriter:
    """Copies the retained records of segments, given with their modification times, to ``target``."""

    def __init__(
        self,
        segments: Sequence[tuple[LogSegment, int]],
        target: CleanedSegment,
        offset_map: OffsetMap,
        retention: ProducerRetention,
        transactions: CleanedTransactionMetadata,
        rules: FilterRules,
        window_bytes: int,
    ) -> None:
        self._ahead = list(reversed(segments))
        self._target = target
        self._offset_map = offset_map
        self._retention = retention
        self._transactions = transactions
        self._rules = rules
        self._window_bytes = window_bytes
        self._windows: BatchWindows | None = None
        self._drops_legacy_tombstones = False
        self._out = bytearray()
        self.records_read = 0
        self.records_kept = 0

    @property
    def is_done(self) -> bool:
        return self._windows is None and not self._ahead

    def take_aborted(self) -> list[AbortedTransaction]:
        """Return the aborted transactions for the transaction index of the new segment."""
        return self._transactions.take_kept()

    def step(self, size_bytes: int) -> int:
        """Read about ``size_bytes`` and write the retained part; return the bytes read and written."""
        moved_bytes = 0
        while moved_bytes < size_bytes and not self.is_done:
            if self._windows is None:
                segment, modified_ms = self._ahead.pop()
                self._windows = BatchWindows(segment, self._window_bytes)
                self._drops_legacy_tombstones = modified_ms <= self._rules.legacy_horizon_ms
            if self._windows.is_at_end:
                self._windows = None
                continue
            window = self._windows.read()
            consumed = self._filter(window)
            self._windows.advance(window, consumed)
            if self._out:
                self._target.append(self._out)
            moved_bytes += consumed + len(self._out) + 1
            self._out = bytearray()
        return moved_bytes

    def _filter(self, window: bytes) -> int:
        position, end = 0, RUN_BYTES
        while True:
            position = self._filter_run(memoryview(window)[:end], position)
            header = header_at(window, position)
            if header is None:
                return position
            if header.end_position > end:
                end = max(position + RUN_BYTES, header.end_position)
                continue
            self._filter_batch(window, header)
            position = header.end_position

    def _filter_run(self, window: memoryview, position: int) -> int:
        """Filter consecutive plain batches; return the position of the first that is not plain."""
        rules, retention = self._rules, memoryview(self._retention.last_offsets)
        result = filter_batches(
            window, position, self._offset_map, retention, rules.now_ms, rules.delete_retention_ms, self._out
        )
        self.records_read += result.records_read
        self.records_kept += result.records_kept
        if result.batches_kept:
            self._target.index(
                BatchRun(
                    result.bytes_kept,
                    result.last_offset,
                    result.last_batch_position,
                    result.max_timestamp,
                    result.offset_of_max_timestamp,
                )
            )
        return result.position

    def _filter_batch(self, window: bytes, header: BatchHeader) -> None:
        if header.is_control:
            is_discardable = self._transactions.may_drop_marker(header, control_type(window, header))
            horizon_ms = header.delete_horizon_ms
            is_discarded = is_discardable and horizon_ms is not None and horizon_ms <= self._rules.now_ms
        else:
            is_discardable = is_discarded = self._transactions.is_aborted(header)
        filtered = filter_batch(
            window,
            header,
            self._offset_map,
            discard_records=is_discarded,
            keep_empty=self._retention.must_retain(header),
            drop_tombstones_of_legacy=self._drops_legacy_tombstones,
            now_ms=self._rules.now_ms,
            delete_retention_ms=self._rules.delete_retention_ms,
            marker_of_empty_transaction=is_discardable and header.is_control,
        )
        if filtered is not None:
            self._append(filtered)

    def _append(self, filtered: bytes) -> None:
        """Append a retained batch, or the retained messages of an old format."""
        for header in read_headers(filtered):
            offset, position = header.last_offset, len(self._out) + header.position
            self._target.index(BatchRun(header.size_bytes, offset, position, header.max_timestamp, offset))
        self._out += filtered


def control_type(window: bytes, header: BatchHeader) -> ControlRecordType | None:
    """Return the type of a control batch; ``None`` if an earlier cleaning emptied it."""
    if header.count == 0:
        return None
    return read_control_type(decode_batch(window, header)[0].key)
