"""What appends and reads give back. Made per request: plain slots, built by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.ports.files import FileSlice

if TYPE_CHECKING:
    from odradek.log.segments.log_segment import LogSegment


class LogAppendInfo:
    """Where an append went. A duplicate went there before; without records the offsets are -1."""

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
    """Batches as they lie in a file. The last one may be cut short; the first only if
    ``first_entry_incomplete``. ``segment`` is the one they lie in, if there are any."""

    __slots__ = ("data", "first_entry_incomplete", "segment")

    def __init__(
        self, data: FileSlice | bytes, first_entry_incomplete: bool = False, segment: LogSegment | None = None
    ) -> None:
        self.data = data
        self.first_entry_incomplete = first_entry_incomplete
        self.segment = segment


EMPTY_FETCH: Final = FetchDataInfo(b"")
