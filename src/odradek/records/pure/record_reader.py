"""The records of one partition in a fetch answer, in plain Python: what the compiled part must do.

Invariant: whatever the bytes are, a reader ends: each step passes a batch or a record, or fails for good.
What comes out has rising offsets from ``start_offset`` on. Batches are decompressed one at a time, when their
turn comes. Of committed reading: a producer is aborted from the first offset of its aborted transaction to
its abort marker, and its transactional batches in between are passed over; so are control batches, always.
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
    """A buffer to receive fetched bytes into; what is in it before that is anything at all.

    It lives as long as a view of it does. The compiled codec keeps a few for the next ones who ask.
    """
    return memoryview(bytearray(size))


class _Failure(NamedTuple):
    code: ErrorCode
    words: str


class _NotForUs(Exception):
    """A batch that is passed over."""


class RecordReader:
    """Records out of fetched bytes; ``next_offset`` is where to go on.

    ``aborted`` are producer ids and first offsets of aborted transactions, in any order; ``None`` reads
    uncommitted records too.
    """

    __slots__ = (
        "_aborted",
        "_aborted_ids",
        "_batch_position",
        "_bytes_max",
        "_check_crcs",
        "_failure",
        "_held_back",
        "_last_offset",
        "_left",
        "_position",
        "_records",
        "_view",
        "cut_off",
        "exhausted",
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
        self.exhausted = self.cut_off = False
        self._aborted: list[tuple[int, int]] | None = None
        if aborted is not None:
            self._aborted = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._aborted_ids: set[int] = set()
        self._check_crcs = check_crcs
        self._bytes_max = decompressed_bytes_max
        self._position = self._batch_position = 0
        self._last_offset = self._left = -1
        self._records: Iterator[ConsumerRecord] | None = None
        self._held_back: ConsumerRecord | None = None
        self._failure: _Failure | None = None
        self._look_ahead()

    @property
    def bytes_left(self) -> int:
        """Bytes of batches that have not been entered, a cut-off one included."""
        return len(self._view) - self._position

    def end_offset(self) -> int | None:
        """The offset after the last whole batch: where the next fetch may begin before this one is read.

        None if there is no such batch, or if there are too many, or batches of an old format.
        """
        found: int | None = None
        position = 0
        for _ in range(BATCHES_WALKED_MAX):
            if len(self._view) - position < BATCH_OVERHEAD:
                return found
            size = int.from_bytes(self._view[position + 8 : position + 12], signed=True)
            if size <= 0 or self._view[position + MAGIC_POSITION] != 2:
                return None
            if position + size + LOG_OVERHEAD > len(self._view):
                return found
            base_offset = int.from_bytes(self._view[position : position + 8], signed=True)
            last_delta = int.from_bytes(self._view[position + 23 : position + 27], signed=True)
            if base_offset < 0 or last_delta < 0 or base_offset > INT64_MAX - 1 - last_delta:
                return None
            found = base_offset + last_delta + 1
            position += size + LOG_OVERHEAD
        return None

    def take(self, records_max: int) -> list[ConsumerRecord]:
        """At most so many records; fewer only at the end, or before bytes that cannot be read.

        The next call after those raises ``RecordCorrupt``, and so does every further one.
        """
        taken: list[ConsumerRecord] = []
        while len(taken) < records_max and (record := self._next()) is not None:
            taken.append(record)
            self.next_offset = record.offset + 1
        self._end_call(records_max, len(taken))
        return taken

    def take_columns(self, records_max: int, into: ColumnBuilder, stop_offset: int = INT64_MAX) -> int:
        """As ``take``, but rows for Arrow, none of them at ``stop_offset`` or beyond; returns how many."""
        count = 0
        while count < records_max and (record := self._next(stop_offset)) is not None:
            if record.offset >= stop_offset:
                # Nothing is left before it: who stops there goes on there.
                self._held_back = record
                self.next_offset = stop_offset
                break
            if not into.add(record):
                self._held_back = record
                break
            self.next_offset = record.offset + 1
            count += 1
            self._end_batch()
        self._end_call(records_max, count)
        return count

    def _end_batch(self) -> None:
        """Leave a batch whose last record was given."""
        if self._records is not None and self._left == 0 and self._held_back is None:
            try:
                for _ in self._records:
                    pass
            except BrokerError as refusal:
                self._fail(refusal)
            else:
                self._pass()

    def _end_call(self, records_max: int, count: int) -> None:
        self._end_batch()
        if self._failure is None and self._records is None:
            self._look_ahead()
        if self._failure is not None and records_max > 0 and not count:
            raise RecordCorrupt(self._failure.words, code=self._failure.code, retriable=False)

    def _next(self, stop_offset: int = INT64_MAX) -> ConsumerRecord | None:
        """The next record that is for us; ``None`` at the end, or if it cannot be read."""
        if self.next_offset >= stop_offset:
            return None
        if self._held_back is not None:
            record, self._held_back = self._held_back, None
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
            except _NotForUs:
                pass
            except BrokerError as refusal:
                self._fail(refusal)
                return None
            self._pass()
        return None

    def _pass(self) -> None:
        self._records = None
        self.next_offset = max(self.next_offset, self._last_offset + 1)

    def _fail(self, refusal: BrokerError) -> None:
        start = self._view[self._batch_position : self._batch_position + 8]
        offset = int.from_bytes(start, "big", signed=True) if len(start) == 8 else -1
        words = (
            f"{self.topic}-{self.partition}: the batch at offset {offset} (byte {self._batch_position} of "
            f"what was fetched) cannot be read: {refusal.message}"
        )
        self._failure = _Failure(refusal.code, words)
        self._records = None

    def _look_ahead(self) -> bool:
        """Whether something follows that is more than a batch that was cut off."""
        left = len(self._view) - self._position
        if left >= LOG_OVERHEAD:
            size = int.from_bytes(self._view[self._position + 8 : self._position + 12], "big", signed=True)
            if size < MESSAGE_OVERHEAD_0:
                return True
            if left > LOG_OVERHEAD + 4:
                magic = self._view[self._position + MAGIC_POSITION]
                if magic > 2 or left >= size + LOG_OVERHEAD:
                    return True
        self.cut_off = left > 0
        self.exhausted = True
        return False

    def _enter(self) -> Iterator[ConsumerRecord]:
        """Go into the next batch and past it."""
        self._batch_position = position = self._position
        size = int.from_bytes(self._view[position + 8 : position + 12], "big", signed=True)
        if size < MESSAGE_OVERHEAD_0:
            raise _corrupt(f"{size} bytes are less than any batch has")
        magic = self._view[position + MAGIC_POSITION]
        if magic > 2:
            raise _corrupt(f"there is no magic {magic}")
        header = read_header(self._view, position, size, magic)
        return self._enter_batch(header) if magic == 2 else self._enter_message(header)

    def _enter_batch(self, header: BatchHeader) -> Iterator[ConsumerRecord]:
        checked = self._view[header.position + CRC_START : header.end_position]
        if self._check_crcs and crc32c(checked) != header.crc:
            raise _corrupt("its checksum is not that of its bytes")
        numbers = (header.base_offset, header.last_offset_delta, header.count)
        if min(numbers) < 0 or header.last_offset >= INT64_MAX:
            raise _corrupt(
                f"no batch has {header.count} records in {header.last_offset_delta} and 1 offsets "
                f"from {header.base_offset} on"
            )
        self.leader_epoch = header.leader_epoch
        self._last_offset = header.last_offset
        self._left = header.count
        self._position = header.end_position
        if self._aborted is not None and header.has_producer_id and self._is_aborted(self._aborted, header):
            raise _NotForUs
        if header.is_control or header.last_offset < self.next_offset:
            raise _NotForUs
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
            raise BrokerError(ErrorCode.INVALID_RECORD, "a control record's key is none")
        return key[2:4] == b"\0\0"

    def _read(self, header: BatchHeader, content: memoryview) -> Iterator[ConsumerRecord]:
        fixed = bool(header.attributes & APPEND_TIME_BIT)
        cursor = RecordCursor(content)
        for self._left in reversed(range(header.count)):
            delta, offset_delta, key, value, headers = cursor.read_record()
            if not 0 <= offset_delta <= header.last_offset_delta:
                raise BrokerError(
                    ErrorCode.INVALID_RECORD, "a record's offset is not among those of its batch"
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
            raise _corrupt(f"no message has offset {header.base_offset}")
        return self._read_messages(header, header.timestamp_type if header.magic else None)

    def _read_messages(
        self, header: BatchHeader, timestamp_type: TimestampType | None
    ) -> Iterator[ConsumerRecord]:
        for message in read_message(self._view, header, self._bytes_max):
            offset, timestamp, key, value, headers = message.record
            # The wrapper of a producer that did not care has offset 0, and says nothing about those inside.
            if offset > (header.base_offset or INT64_MAX - 1):
                raise _corrupt(f"offset {offset} is inside a message that ends before")
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


def _corrupt(why: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, why)
