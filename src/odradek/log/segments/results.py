"""Results of appends and reads. Created per request: plain slots, positional arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.ports.files import FileSlice

if TYPE_CHECKING:
    from odradek.log.segments.log_segment import LogSegment


class LogAppendInfo:
    """Offsets of an append. A duplicate has those of the first append; without records they are -1."""

    __slots__ = (
        "append_time_ms",
        "first_offset",
        "is_duplicate",
        "last_offset",
        "log_start_offset",
        "record_count",
        "size_bytes",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        append_time_ms: int,
        log_start_offset: int,
        record_count: int = 0,
        size_bytes: int = 0,
        is_duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.append_time_ms = append_time_ms
        self.log_start_offset = log_start_offset
        self.record_count = record_count
        self.size_bytes = size_bytes
        self.is_duplicate = is_duplicate


class FetchDataInfo:
    """Fetched batches. The last one may be incomplete, the first only if ``first_entry_incomplete``.

    ``segment`` is the segment that contains them, if there are any.
    """

    __slots__ = ("data", "first_entry_incomplete", "segment")

    def __init__(
        self, data: FileSlice | bytes, first_entry_incomplete: bool = False, segment: LogSegment | None = None
    ) -> None:
        self.data = data
        self.first_entry_incomplete = first_entry_incomplete
        self.segment = segment


EMPTY_FETCH: Final = FetchDataInfo(b"")
