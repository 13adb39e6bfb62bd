"""A topic's rules for records, the circumstances of one append, and the refusals that name records.

Invariant: these are values; what they mean is decided in ``validation`` and ``legacy``.
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
    """Where an append comes from; only clients are held to what clients may write."""

    CLIENT = enum.auto()
    COORDINATOR = enum.auto()
    REPLICATION = enum.auto()


class RecordValidationError(BrokerError):
    """A batch refused for some of its records: index and reason of each, as Produce 8+ reports them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


@dataclass(frozen=True, slots=True)
class AppendRules:
    """A topic's settings as far as they decide about records. ``compression`` None keeps the producer's."""

    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = INT64_MAX
    compression: Compression | None = None
    compression_level: int | None = None
    message_bytes_max: int = 1_048_588
    compacted: bool = False
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


class WorkLimits(NamedTuple):
    """The most that checking one buffer may take where it is checked."""

    plain_bytes_max: int
    """Size of a batch that is kept as it is."""
    converted_bytes_max: int
    """Size of a batch or message set that is decompressed, recompressed or converted."""
    decompressed_bytes_max: int
    """Size of the records after decompression."""


NO_LIMITS: Final = WorkLimits(INT64_MAX, INT64_MAX, INT64_MAX)
EVENT_LOOP_LIMITS: Final = WorkLimits(2 << 20, 64 << 10, 512 << 10)
"""About two milliseconds at most, for the slowest codec: the event loop serves others after that."""
WORKER_LIMITS: Final = WorkLimits(INT64_MAX, INT64_MAX, 16 << 20)
"""Enough for the batches of nearly all producers; larger ones are unpacked one at a time."""


class WorkLimitExceeded(Exception):
    """Raised when checking a buffer takes more than the given ``WorkLimits``; the buffer is unchanged."""


class RecordFault(NamedTuple):
    """Why a record is refused, and the code its batch is refused with."""

    code: ErrorCode
    why: str


KEYLESS: Final = RecordFault(ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key")
MARKED: Final = RecordFault(
    ErrorCode.INVALID_TIMESTAMP, "a producer may not mark its records with append time"
)
OTHER_MAGIC: Final = RecordFault(ErrorCode.INVALID_RECORD, "a message's magic is not that of its wrapper")


@dataclass(slots=True)
class Append:
    """One call's circumstances, passed as one."""

    next_offset: int
    leader_epoch: int
    now_ms: int
    rules: AppendRules
    origin: AppendOrigin
    decompressed_bytes_max: int

    @property
    def stamps(self) -> bool:
        return self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    def late(self, timestamp: int) -> RecordFault:
        """The fault of a record whose timestamp is outside the window."""
        earliest, latest = self.window
        why = f"timestamp {timestamp} is not within {earliest} to {latest}"
        return RecordFault(ErrorCode.INVALID_TIMESTAMP, why)

    @property
    def window(self) -> tuple[int, int]:
        """Earliest and latest timestamp that a record may have."""
        if self.stamps:
            return INT64_MIN, INT64_MAX
        before, after = self.rules.timestamp_before_max_ms, self.rules.timestamp_after_max_ms
        return saturated(self.now_ms - before), saturated(self.now_ms + after)


def record_errors(faults: list[tuple[int, RecordFault]]) -> RecordValidationError:
    """The refusal of a batch for these records; one bad timestamp makes it INVALID_TIMESTAMP."""
    codes = {fault.code for _, fault in faults}
    bad_time = ErrorCode.INVALID_TIMESTAMP in codes
    code = ErrorCode.INVALID_TIMESTAMP if bad_time else ErrorCode.INVALID_RECORD
    index, first = faults[0]
    message = f"{len(faults)} records are refused, the first at index {index}: {first.why}"
    return RecordValidationError(code, message, [(index, fault.why) for index, fault in faults])


def refused(why: str) -> BrokerError:
    """A batch that is not what a batch must be."""
    return BrokerError(ErrorCode.INVALID_RECORD, why)
