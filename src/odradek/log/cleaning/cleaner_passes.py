"""The two passes of a compaction over a log's files, in steps that a thread takes one at a time.

``OffsetMapBuilder`` reads the dirty part and notes the newest offset of each key. ``SegmentRewriter`` reads
a group of
segments and writes what stays to a new one. A step reads about as much as it is told to, touches only files,
and leaves its state here for the next; between steps the loop decides whether there is one.

No Python runs per record, nor per batch where batches are plain: the codec goes over those. Batches that are
compressed, transactional, markers or of an old format are met one by one.
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
"""FilterResult at once, and given one entry in the indexes: half of what Kafka's default makes of it. Less
would have the thread ask for the interpreter more often, more would have readers search longer."""


class BatchWindows:
    """Windows of a segment's log file, each beginning with a batch; one too small for it is widened."""

    def __init__(self, segment: LogSegment, window_bytes: int) -> None:
        self._segment = segment
        self._window_bytes = window_bytes
        self._wanted_bytes = window_bytes
        self._position = 0
        self._file: File | None = None

    @property
    def is_at_end(self) -> bool:
        return self._position >= self._segment.size

    def read(self) -> bytes:
        if self._file is None:
            self._file = self._segment.context.files.open(self._segment.path(LOG), writable=False)
        wanted_bytes = min(self._wanted_bytes, self._segment.size - self._position)
        window = self._file.read_at(self._position, wanted_bytes)
        if len(window) < wanted_bytes:
            raise self._corrupt()
        return window

    def took(self, window: bytes, taken: int) -> None:
        """So much of the window was whole batches; the next begins after them."""
        self._position += taken
        self._wanted_bytes = self._window_bytes
        if taken == 0:
            self._widen(window)
        if self.is_at_end and self._file is not None:
            self._file.close()

    def _widen(self, window: bytes) -> None:
        """Make the next window hold the batch that this one did not."""
        size_bytes = int.from_bytes(window[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
        if not len(window) < size_bytes <= self._segment.size - self._position:
            raise self._corrupt()
        self._wanted_bytes = size_bytes

    def _corrupt(self) -> BrokerError:
        return BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"no batch can be read at position {self._position} of {self._segment.path(LOG)}",
        )


class OffsetMapBuilder:
    """Fills ``keys`` from the dirty segments; each comes with the offset at which the next one begins."""

    def __init__(
        self,
        segments: Sequence[tuple[LogSegment, int]],
        keys: OffsetMap,
        count_max: int,
        first_dirty_offset: int,
        walk: CleanedTransactionMetadata,
        window_bytes: int,
    ) -> None:
        self._ahead = list(reversed(segments))
        self._keys = keys
        self._count_max = count_max
        self._from_offset = first_dirty_offset
        self._walk = walk
        self._window_bytes = window_bytes
        self._windows: BatchWindows | None = None
        self._end_offset = 0
        self.is_full = False

    @property
    def is_done(self) -> bool:
        return self.is_full or (self._windows is None and not self._ahead)

    def step(self, size_bytes: int) -> int:
        """Read about so much; give how much it was."""
        read_bytes = 0
        while read_bytes < size_bytes and not self.is_done:
            if self._windows is None:
                segment, self._end_offset = self._ahead.pop()
                self._windows = BatchWindows(segment, self._window_bytes)
            if self._windows.is_at_end:
                # Offsets may be missing at the end of a segment: they count as seen.
                self._keys.update_latest_offset(self._end_offset - 1)
                self._windows = None
                continue
            window = self._windows.read()
            taken = self._learn(window)
            if not self.is_full:
                self._windows.took(window, taken)
            read_bytes += max(taken, 1)
        return read_bytes

    def _learn(self, window: bytes) -> int:
        """How much of a window was taken: all whole batches, unless the map has no room left."""
        position = 0
        while True:
            position = self._keys.put_batches(window, position, self._from_offset, self._count_max)
            header = header_at(window, position)
            if header is None:
                return position
            if not self._learn_one(window, header):
                self.is_full = True
                return position
            position = header.end_position

    def _learn_one(self, window: bytes, header: BatchHeader) -> bool:
        if header.is_control:
            self._walk.may_drop_marker(header, control_type(window, header))
        elif not self._walk.is_aborted(header):
            return put_batch(window, header, self._keys, self._from_offset, self._count_max)
        if header.last_offset >= self._from_offset:
            self._keys.update_latest_offset(header.last_offset)
        return True


class ProducerRetention(NamedTuple):
    """What must stay, though empty, so that producers are known after a restart."""

    last_offsets: array[int]
    """Sorted: last offsets of the batches that hold a producer's last sequence."""
    marker_epochs: Mapping[int, int]
    """Of producers of which only markers are known: their epoch."""

    def keeps(self, header: BatchHeader) -> bool:
        number = bisect_left(self.last_offsets, header.last_offset)
        if number < len(self.last_offsets) and self.last_offsets[number] == header.last_offset:
            return True
        return header.is_control and self.marker_epochs.get(header.producer_id) == header.producer_epoch


class FilterRules(NamedTuple):
    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int
    """Tombstones of old formats go from files last written by then."""


class SegmentRewriter:
    """Writes what stays of a group of segments to ``target``. ``modified_ms`` is given for each of them."""

    def __init__(
        self,
        segments: Sequence[tuple[LogSegment, int]],
        target: CleanedSegment,
        keys: OffsetMap,
        kept: ProducerRetention,
        walk: CleanedTransactionMetadata,
        rules: FilterRules,
        window_bytes: int,
    ) -> None:
        self._ahead = list(reversed(segments))
        self._target = target
        self._keys = keys
        self._kept = kept
        self._walk = walk
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
        """The aborted transactions that the new segment has to tell of."""
        return self._walk.take_kept()

    def step(self, size_bytes: int) -> int:
        """Read about so much and write what stays of it; give how much was read and written."""
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
            taken = self._sift(window)
            self._windows.took(window, taken)
            if self._out:
                self._target.append(self._out)
            moved_bytes += taken + len(self._out) + 1
            self._out = bytearray()
        return moved_bytes

    def _sift(self, window: bytes) -> int:
        position, end = 0, RUN_BYTES
        while True:
            position = self._sift_run(memoryview(window)[:end], position)
            header = header_at(window, position)
            if header is None:
                return position
            if header.end_position > end:
                end = max(position + RUN_BYTES, header.end_position)
                continue
            self._sift_one(window, header)
            position = header.end_position

    def _sift_run(self, window: memoryview, position: int) -> int:
        """Take plain batches as far as there are; give where the first stands that was not taken."""
        rules, kept = self._rules, memoryview(self._kept.last_offsets)
        sifted = filter_batches(
            window, position, self._keys, kept, rules.now_ms, rules.delete_retention_ms, self._out
        )
        self.records_read += sifted.records_read
        self.records_kept += sifted.records_kept
        if sifted.batches_kept:
            self._target.index(
                BatchRun(
                    sifted.bytes_kept,
                    sifted.last_offset,
                    sifted.last_batch_position,
                    sifted.max_timestamp,
                    sifted.offset_of_max_timestamp,
                )
            )
        return sifted.position

    def _sift_one(self, window: bytes, header: BatchHeader) -> None:
        if header.is_control:
            may_drop = self._walk.may_drop_marker(header, control_type(window, header))
            horizon_ms = header.delete_horizon_ms
            discards = may_drop and horizon_ms is not None and horizon_ms <= self._rules.now_ms
        else:
            may_drop = discards = self._walk.is_aborted(header)
        made = filter_batch(
            window,
            header,
            self._keys,
            discard_records=discards,
            keep_empty=self._kept.keeps(header),
            drop_tombstones_of_legacy=self._drops_legacy_tombstones,
            now_ms=self._rules.now_ms,
            delete_retention_ms=self._rules.delete_retention_ms,
            marker_of_empty_transaction=may_drop and header.is_control,
        )
        if made is not None:
            self._keep(made)

    def _keep(self, made: bytes) -> None:
        """Take one batch, or the messages of an old format that are left of one."""
        for header in read_headers(made):
            offset, at = header.last_offset, len(self._out) + header.position
            self._target.index(BatchRun(header.size_bytes, offset, at, header.max_timestamp, offset))
        self._out += made


def control_type(window: bytes, header: BatchHeader) -> ControlRecordType | None:
    """What a control batch says; ``None`` if compaction has emptied it before."""
    if header.count == 0:
        return None
    return read_control_type(decode_batch(window, header)[0].key)
