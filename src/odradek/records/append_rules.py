"""Topic configs that apply to appended records, the context of one append, and per-record errors.

Values only; ``validation`` and ``conversion`` apply them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records.compression import DECOMPRESSED_BYTES_MAX
from odradek.records.layout import INT64_MAX, INT64_MIN, saturated


class AppendOrigin(enum.Enum):
    """Origin of an append; some checks apply to clients only."""

    CLIENT = enum.auto()
    COORDINATOR = enum.auto()
    REPLICATION = enum.auto()


class RecordValidationError(BrokerError):
    """Raised for invalid records of a batch; has index and message of each, as reported since Produce 8."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


@dataclass(frozen=True, slots=True)
class AppendRules:
    """Topic configs used by record validation. ``compression`` None keeps the producer's codec."""

    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = INT64_MAX
    compression: Compression | None = None
    compression_level: int | None = None
    message_bytes_max: int = 1_048_588
    compacted: bool = False
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


class WorkLimits(NamedTuple):
    """Limits on the work to validate or convert one buffer."""

    plain_bytes_max: int
    """Size of a batch that is validated in place."""
    converted_bytes_max: int
    """Size of a batch or message set that must be decompressed, recompressed or converted."""
    decompressed_bytes_max: int
    """Size of the records after decompression."""


NO_LIMITS: Final = WorkLimits(INT64_MAX, INT64_MAX, INT64_MAX)
EVENT_LOOP_LIMITS: Final = WorkLimits(2 << 20, 64 << 10, 512 << 10)
"""About two milliseconds of the event loop at most, for the slowest codec."""
WORKER_LIMITS: Final = WorkLimits(INT64_MAX, INT64_MAX, 16 << 20)
"""Enough for the batches of nearly all producers; larger ones are decompressed one at a time."""


class WorkLimitExceeded(Exception):
    """Raised when a buffer needs more work than its ``WorkLimits``; the buffer is unchanged."""


class RecordError(NamedTuple):
    """Error of one record: the code its batch is rejected with, and the message."""

    code: ErrorCode
    message: str


MISSING_KEY: Final = RecordError(ErrorCode.INVALID_RECORD, "record in a compacted topic must have a key")
APPEND_TIME_SET: Final = RecordError(
    ErrorCode.INVALID_TIMESTAMP, "timestamp type of a produced batch must be CreateTime, got LogAppendTime"
)
MAGIC_MISMATCH: Final = RecordError(
    ErrorCode.INVALID_RECORD, "magic of an inner message must equal that of its wrapper"
)


@dataclass(slots=True)
class AppendContext:
    """Arguments of one append."""

    next_offset: int
    leader_epoch: int
    now_ms: int
    rules: AppendRules
    origin: AppendOrigin
    decompressed_bytes_max: int

    @property
    def uses_append_time(self) -> bool:
        return self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    def timestamp_error(self, timestamp: int) -> RecordError:
        """Return the error of a record whose timestamp is out of range."""
        earliest, latest = self.timestamp_range
        message = f"timestamp must be in {earliest}..{latest}, got {timestamp}"
        return RecordError(ErrorCode.INVALID_TIMESTAMP, message)

    @property
    def timestamp_range(self) -> tuple[int, int]:
        """Earliest and latest valid timestamp of a record."""
        if self.uses_append_time:
            return INT64_MIN, INT64_MAX
        before, after = self.rules.timestamp_before_max_ms, self.rules.timestamp_after_max_ms
        return saturated(self.now_ms - before), saturated(self.now_ms + after)


def record_validation_error(errors: list[tuple[int, RecordError]]) -> RecordValidationError:
    """Return the error of a batch with these invalid records: INVALID_TIMESTAMP if any is one."""
    codes = {error.code for _, error in errors}
    has_bad_timestamp = ErrorCode.INVALID_TIMESTAMP in codes
    code = ErrorCode.INVALID_TIMESTAMP if has_bad_timestamp else ErrorCode.INVALID_RECORD
    index, first = errors[0]
    message = f"{len(errors)} invalid records, the first at index {index}: {first.message}"
    return RecordValidationError(code, message, [(index, error.message) for index, error in errors])


def invalid_record(message: str) -> BrokerError:
    """Return an INVALID_RECORD error."""
    return BrokerError(ErrorCode.INVALID_RECORD, message)
