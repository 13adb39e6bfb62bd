"""Reader of the fetched records of one partition.

Invariant: a reader terminates for any bytes: each step passes a batch or a record, or fails permanently.
Offsets increase, from ``start_offset`` on. Batches are decompressed one at a time. With READ_COMMITTED,
transactional batches of a producer are skipped from the first offset of its aborted transaction to the abort
marker; control batches are always skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.model.client_errors import RecordCorrupt
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import TimestampType
from odradek.ports.files import Buffer
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from odradek.records.layout import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CRC_START,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_OVERHEAD_0,
    BatchHeader,
)
from odradek.records.message_set import read_message
from odradek.records.pure.column_builder import ColumnBuilder
from odradek.records.pure.consumer_record import ConsumerRecord
from odradek.records.pure.record_batch import RecordCursor, crc32c, read_header, wrapped_int64

BATCHES_WALKED_MAX: Final = 1024


def allocate_fetch_buffer(size: int) -> memoryview:
    """Return an uninitialized buffer for a fetch response.

    It lives as long as a view of it. The compiled codec reuses a few buffers.
    """
    return memoryview(bytearray(size))


class _Failure(NamedTuple):
    code: ErrorCode
    message: str


class _SkipBatch(Exception):
    """Raised to skip a batch."""


class RecordReader:
    """Reads records from fetched bytes; ``next_offset`` is the position after the last one.

    ``aborted`` has producer ids and first offsets of aborted transactions, in any order; ``None`` reads
    uncommitted records too.
    """

    __slots__ = (
        "_aborted",
        "_aborted_ids",
        "_batch_position",
        "_bytes_max",
        "_check_crcs",
        "_failure",
        "_last_offset",
        "_left",
        "_pending",
        "_position",
        "_records",
        "_view",
        "exhausted",
        "has_partial_batch",
        "leader_epoch",
        "next_offset",
        "partition",
        "topic",
    )

    def __init__(
        self,
        buffer: Buffer,
        topic: str,
        partition: int,
        start_offset: int,
        *,
        aborted: Sequence[tuple[int, int]] | None = None,
        check_crcs: bool = True,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self._view = memoryview(buffer)
        self.topic = topic
        self.partition = partition
        self.next_offset = start_offset
        self.leader_epoch = -1
        self.exhausted = self.has_partial_batch = False
        self._aborted: list[tuple[int, int]] | None = None
        if aborted is not None:
            self._aborted = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._aborted_ids: set[int] = set()
        self._check_crcs = check_crcs
        self._bytes_max = decompressed_bytes_max
        self._position = self._batch_position = 0
        self._last_offset = self._left = -1
        self._records: Iterator[ConsumerRecord] | None = None
        self._pending: ConsumerRecord | None = None
        self._failure: _Failure | None = None
        self._look_ahead()

    @property
    def bytes_left(self) -> int:
        """Bytes of batches not read yet, including a partial one."""
        return len(self._view) - self._position

    def end_offset(self) -> int | None:
        """Return the offset after the last complete batch, where the next fetch can start.

        None if there is no such batch, or if there are too many, or batches of an old format.
        """
        end_offset: int | None = None
        position = 0
        for _ in range(BATCHES_WALKED_MAX):
            if len(self._view) - position < BATCH_OVERHEAD:
                return end_offset
            size = int.from_bytes(self._view[position + 8 : position + 12], signed=True)
            if size <= 0 or self._view[position + MAGIC_POSITION] != 2:
                return None
            if position + size + LOG_OVERHEAD > len(self._view):
                return end_offset
            base_offset = int.from_bytes(self._view[position : position + 8], signed=True)
            last_delta = int.from_bytes(self._view[position + 23 : position + 27], signed=True)
            if base_offset < 0 or last_delta < 0 or base_offset > INT64_MAX - 1 - last_delta:
                return None
            end_offset = base_offset + last_delta + 1
            position += size + LOG_OVERHEAD
        return None

    def take(self, records_max: int) -> list[ConsumerRecord]:
        """Read at most ``records_max`` records; fewer only at the end, or before corrupt bytes.

        The call after those raises ``RecordCorrupt``, and so does every later one.
        """
        records: list[ConsumerRecord] = []
        while len(records) < records_max and (record := self._next()) is not None:
            records.append(record)
            self.next_offset = record.offset + 1
        self._end_call(records_max, len(records))
        return records

    def take_columns(self, records_max: int, into: ColumnBuilder, stop_offset: int = INT64_MAX) -> int:
        """Read rows into ``into`` as ``take`` does, up to ``stop_offset`` (exclusive); return how many."""
        count = 0
        while count < records_max and (record := self._next(stop_offset)) is not None:
            if record.offset >= stop_offset:
                # No record is left before ``stop_offset``.
                self._pending = record
                self.next_offset = stop_offset
                break
            if not into.add(record):
                self._pending = record
                break
            self.next_offset = record.offset + 1
            count += 1
            self._end_batch()
        self._end_call(records_max, count)
        return count

    def _end_batch(self) -> None:
        """Leave a batch after its last record."""
        if self._records is not None and self._left == 0 and self._pending is None:
            try:
                for _ in self._records:
                    pass
            except BrokerError as error:
                self._fail(error)
            else:
                self._pass()

    def _end_call(self, records_max: int, count: int) -> None:
        self._end_batch()
        if self._failure is None and self._records is None:
            self._look_ahead()
        if self._failure is not None and records_max > 0 and not count:
            raise RecordCorrupt(self._failure.message, code=self._failure.code, retriable=False)

    def _next(self, stop_offset: int = INT64_MAX) -> ConsumerRecord | None:
        """Return the next record to deliver; ``None`` at the end, or if it is corrupt."""
        if self.next_offset >= stop_offset:
            return None
        if self._pending is not None:
            record, self._pending = self._pending, None
            return record
        while (
            self._failure is None
            and self.next_offset < stop_offset
            and (self._records is not None or self._look_ahead())
        ):
            try:
                if self._records is None:
                    self._records = self._enter()
                for record in self._records:
                    if record.offset >= self.next_offset:
                        return record
            except _SkipBatch:
                pass
            except BrokerError as error:
                self._fail(error)
                return None
            self._pass()
        return None

    def _pass(self) -> None:
        self._records = None
        self.next_offset = max(self.next_offset, self._last_offset + 1)

    def _fail(self, error: BrokerError) -> None:
        start = self._view[self._batch_position : self._batch_position + 8]
        offset = int.from_bytes(start, "big", signed=True) if len(start) == 8 else -1
        message = (
            f"{self.topic}-{self.partition}: batch at offset {offset} (byte {self._batch_position} of the "
            f"fetched records) is corrupt: {error.message}"
        )
        self._failure = _Failure(error.code, message)
        self._records = None

    def _look_ahead(self) -> bool:
        """Return whether a complete batch, or an invalid one, follows."""
        left = len(self._view) - self._position
        if left >= LOG_OVERHEAD:
            size = int.from_bytes(self._view[self._position + 8 : self._position + 12], "big", signed=True)
            if size < MESSAGE_OVERHEAD_0:
                return True
            if left > LOG_OVERHEAD + 4:
                magic = self._view[self._position + MAGIC_POSITION]
                if magic > 2 or left >= size + LOG_OVERHEAD:
                    return True
        self.has_partial_batch = left > 0
        self.exhausted = True
        return False

    def _enter(self) -> Iterator[ConsumerRecord]:
        """Open the next batch and advance past it."""
        self._batch_position = position = self._position
        size = int.from_bytes(self._view[position + 8 : position + 12], "big", signed=True)
        if size < MESSAGE_OVERHEAD_0:
            raise _corrupt(f"size must be >= {MESSAGE_OVERHEAD_0}, got {size}")
        magic = self._view[position + MAGIC_POSITION]
        if magic > 2:
            raise _corrupt(f"unknown magic {magic}")
        header = read_header(self._view, position, size, magic)
        return self._enter_batch(header) if magic == 2 else self._enter_message(header)

    def _enter_batch(self, header: BatchHeader) -> Iterator[ConsumerRecord]:
        checked = self._view[header.position + CRC_START : header.end_position]
        if self._check_crcs and crc32c(checked) != header.crc:
            raise _corrupt("CRC does not match its bytes")
        numbers = (header.base_offset, header.last_offset_delta, header.count)
        if min(numbers) < 0 or header.last_offset >= INT64_MAX:
            raise _corrupt(
                f"invalid header: base offset {header.base_offset}, last offset delta "
                f"{header.last_offset_delta}, {header.count} records"
            )
        self.leader_epoch = header.leader_epoch
        self._last_offset = header.last_offset
        self._left = header.count
        self._position = header.end_position
        if self._aborted is not None and header.has_producer_id and self._is_aborted(self._aborted, header):
            raise _SkipBatch
        if header.is_control or header.last_offset < self.next_offset:
            raise _SkipBatch
        return self._read(header, self._content(header))

    def _content(self, header: BatchHeader) -> memoryview:
        area = self._view[header.position + BATCH_OVERHEAD : header.end_position]
        return decompress(header.codec_id, area, self._bytes_max) if header.codec_id else area

    def _is_aborted(self, aborted: list[tuple[int, int]], header: BatchHeader) -> bool:
        while aborted and aborted[-1][0] <= header.last_offset:
            self._aborted_ids.add(aborted.pop()[1])
        if header.is_control:
            if self._is_abort_marker(header):
                self._aborted_ids.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborted_ids

    def _is_abort_marker(self, header: BatchHeader) -> bool:
        if header.count == 0:
            return False
        key = RecordCursor(self._content(header)).read_record()[2]
        if key is None or len(key) < 4 or key[0] >= 0x80:
            raise BrokerError(ErrorCode.INVALID_RECORD, "malformed key of a control record")
        return key[2:4] == b"\0\0"

    def _read(self, header: BatchHeader, content: memoryview) -> Iterator[ConsumerRecord]:
        fixed = bool(header.attributes & APPEND_TIME_BIT)
        cursor = RecordCursor(content)
        for self._left in reversed(range(header.count)):
            delta, offset_delta, key, value, headers = cursor.read_record()
            if not 0 <= offset_delta <= header.last_offset_delta:
                raise BrokerError(
                    ErrorCode.INVALID_RECORD, "offset of a record is outside the range of its batch"
                )
            timestamp = header.max_timestamp if fixed else wrapped_int64(header.base_timestamp + delta)
            yield ConsumerRecord(
                self.topic,
                self.partition,
                header.base_offset + offset_delta,
                timestamp,
                header.timestamp_type,
                key,
                value,
                headers,
                header.leader_epoch,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
            )
        cursor.finish()

    def _enter_message(self, header: BatchHeader) -> Iterator[ConsumerRecord]:
        self.leader_epoch = self._left = -1
        self._last_offset = header.base_offset
        self._position = header.end_position
        if not 0 <= header.base_offset < INT64_MAX:
            raise _corrupt(f"invalid message offset {header.base_offset}")
        return self._read_messages(header, header.timestamp_type if header.magic else None)

    def _read_messages(
        self, header: BatchHeader, timestamp_type: TimestampType | None
    ) -> Iterator[ConsumerRecord]:
        for message in read_message(self._view, header, self._bytes_max):
            offset, timestamp, key, value, headers = message.record
            # Some producers leave the wrapper offset at 0; inner offsets are then unrelated to it.
            if offset > (header.base_offset or INT64_MAX - 1):
                raise _corrupt(f"inner offset {offset} exceeds the wrapper's {header.base_offset}")
            yield ConsumerRecord(
                self.topic,
                self.partition,
                offset,
                timestamp,
                timestamp_type,
                key,
                value,
                headers,
                -1,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
            )


def _corrupt(message: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, message)
