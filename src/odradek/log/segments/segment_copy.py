"""Copy of a segment, for searches on a thread.

A copy reads time indexes instead of mapping them: a mapped file that is truncated meanwhile ends the process
with SIGBUS.
"""

from __future__ import annotations

from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.log.segments.offset_index import OffsetIndex
from odradek.log.segments.segment_format import LOG, TIME_INDEX, Buffer, IndexBuilder
from odradek.model.errors import BrokerError, ErrorCode


class SegmentCopy(LogSegment):
    """Read-only view of a segment's files, for use on a thread."""

    __slots__ = ("_is_active", "_original_offsets", "rebuilt")

    def __init__(self, original: LogSegment, context: SegmentContext) -> None:
        super().__init__(context, original.base_offset, original.size)
        self.rebuilt: IndexBuilder | None = None
        self._original_offsets = original._offsets
        self._is_active = isinstance(original, ActiveSegment)
        if isinstance(original, ActiveSegment):
            self._file = original.log_file
            self._offsets = OffsetIndex(bytes(original.offset_index()))
            self._times = bytes(original.time_index())
            self._max_timestamp_and_offset = original.max_timestamp_and_offset()
            self._aborted = list(original.aborted())
        else:
            self._file = original._file
            self._max_timestamp_and_offset = original._max_timestamp_and_offset
            self._modified_ms = original._modified_ms
            self._aborted = original._aborted
            if original._offsets is not None:
                self._offsets = original._offsets.copy()
            if original.has_unwritten:
                self._times = original._times
                self._unwritten = original._unwritten

    def _map_times(self) -> Buffer:
        try:
            return self.context.files.read_whole(self.path(TIME_INDEX))
        except FileNotFoundError:
            return b"?"

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes in memory. Indexes of an active segment are in memory and never corrupt."""
        if self._is_active:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"cannot find a batch in {self.path(LOG)}")
        self.rebuilt = self.scan().indexes
        self.rebuilt.add_max_timestamp()
        self.set_indexes(self.rebuilt)

    def release(self) -> None:
        aborted = self._aborted
        super().release()
        self._aborted = aborted  # the copy was made to load them

    def transfer_to(self, original: LogSegment) -> None:
        """Hand the files and values loaded here to the original segment."""
        if self._is_active or isinstance(original, ActiveSegment):
            return
        if self.rebuilt is not None:
            original.set_indexes(self.rebuilt)
        elif self._offsets is not None and original._offsets is self._original_offsets:
            original._offsets = self._offsets
        original._max_timestamp_and_offset = (
            original._max_timestamp_and_offset or self._max_timestamp_and_offset
        )
        if original._modified_ms is None:
            original._modified_ms = self._modified_ms
        if original._aborted is None:
            original._aborted = self._aborted
        if original._file is None:
            original._file = self._file
        if original._file is not None or original._offsets is not None or original._aborted:
            original.context.opened.use(original)
