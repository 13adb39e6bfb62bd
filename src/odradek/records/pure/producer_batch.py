"""A batch that a producer fills, in plain Python: what the compiled part must do.

Invariant: everything here and its namesake in ``_codec`` give equal bytes and equal results. A batch is open,
then sealed, then done: completed, failed or split, once. What it is told after that changes nothing. Threads
may append while another seals: each call is whole for the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from odradek.model.errors import LocalProtocolViolation
from odradek.ports.files import Buffer
from odradek.records.layout import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC_POSITION,
    CRC_START,
    HEADER,
    INT32_MAX,
    LOG_OVERHEAD,
)
from odradek.records.pure.delivery import Call, Delivery, OnDelivery, Waiting
from odradek.records.pure.record_batch import (
    RecordCursor,
    crc32c,
    put_headers,
    put_sized,
    put_varint,
    wrapped_int64,
)
from odradek.records.pure.record_columns import RecordColumns

GivenHeaders = Iterable[tuple[str, Buffer | None]]

_NO_HEADERS: Final = b"\0"
_NUMBERS_BYTES_MAX: Final = 1 + 5 + 10 + 5 + 5 + 5
"""Attributes, length, timestamp, offset, and the sizes of key and value."""


def encoded_headers(headers: GivenHeaders | None) -> bytes:
    """The header count and the headers as they stand in a record."""
    if headers is None:
        return _NO_HEADERS
    out = bytearray()
    put_headers(out, headers)
    return bytes(out)


def record_size_upper_bound(
    key: Buffer | None, value: Buffer | None, headers: GivenHeaders | None = None
) -> int:
    """What a record takes of a batch at most, besides the batch's header."""
    fields = sum(0 if field is None else memoryview(field).nbytes for field in (key, value))
    return _NUMBERS_BYTES_MAX + fields + len(encoded_headers(headers))


class ProducerBatch:
    """Records on their way to one partition, encoded as they come into one buffer behind room for the header.

    ``capacity_bytes`` counts the header and the records before compression; the first record fits whatever
    its size. ``attempts`` to ``tag`` belong to the sender, which may set them.
    """

    __slots__ = (
        "_buffer",
        "_callbacks",
        "_errors",
        "_packed",
        "_part_starts",
        "_parts",
        "_records",
        "attempts",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "capacity_bytes",
        "count",
        "created_ms",
        "done",
        "drained_ms",
        "error",
        "in_retry",
        "is_open",
        "is_split",
        "last_attempt_ms",
        "log_append_time",
        "max_timestamp",
        "partition",
        "producer_epoch",
        "producer_id",
        "split_from",
        "tag",
        "topic",
        "waiting",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        capacity_bytes: int,
        created_ms: int,
        buffer: bytearray | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        if buffer is not None and not isinstance(buffer, bytearray):
            raise TypeError("a batch is written into a bytearray")
        self.topic = topic
        self.partition = partition
        self.capacity_bytes = capacity_bytes
        self.created_ms = created_ms
        self.waiting = waiting
        self.count = 0
        self.base_timestamp = self.max_timestamp = self.base_offset = self.log_append_time = -1
        self.is_open, self.done, self.is_split = True, False, False
        self.error: BaseException | None = None
        self.attempts = self.last_attempt_ms = self.drained_ms = 0
        self.base_sequence = self.producer_id = self.producer_epoch = -1
        self.in_retry = self.split_from = False
        self.tag: object = None
        # Only the compiled one writes in place; here the buffer waits to be given back.
        self._buffer: bytearray | None = bytearray(max(capacity_bytes, BATCH_OVERHEAD))
        if buffer is not None:
            self._buffer = buffer
        self._packed: bytearray | None = None
        self._records = bytearray(BATCH_OVERHEAD)
        self._callbacks: list[tuple[Delivery, Callable[..., object], bool]] = []
        self._errors: Mapping[int, BaseException] = {}
        self._parts: list[ProducerBatch] = []
        self._part_starts: list[int] = []

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch if it is sent as it is: its header and its records."""
        return len(self._records)

    @property
    def parts(self) -> list[ProducerBatch]:
        """What a batch that was split has become; none for others."""
        return list(self._parts) if self.is_split else []

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: GivenHeaders | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """Add a record; ``None`` if the batch is sealed or has no room for it."""
        if timestamp < -1:
            raise LocalProtocolViolation(f"no record can have timestamp {timestamp}")
        if not self.put(timestamp, key, value, encoded_headers(headers)):
            return None
        delivery = Delivery.__new__(Delivery)
        delivery._batch = self
        delivery.index = self.count - 1
        delivery.timestamp = timestamp
        delivery.serialized_key_size = -1 if key is None else memoryview(key).nbytes
        delivery.serialized_value_size = -1 if value is None else memoryview(value).nbytes
        if on_delivery is not None:
            self.add_callback(delivery, on_delivery, False)
        return delivery

    def put(self, timestamp: int, key: Buffer | None, value: Buffer | None, tail: Buffer) -> bool:
        """Add a record whose headers are encoded; says whether it found room."""
        if not self.is_open:
            return False
        body = bytearray(1)
        put_varint(body, wrapped_int64(timestamp - self.base_timestamp) if self.count else 0)
        put_varint(body, self.count)
        put_sized(body, key)
        put_sized(body, value)
        body += tail
        record = bytearray()
        put_varint(record, len(body))
        needed = len(self._records) + len(record) + len(body)
        if needed > self.capacity_bytes and self.count:
            return False
        if needed > INT32_MAX:
            raise LocalProtocolViolation("a batch cannot pass 2 GiB")
        self._records += record
        self._records += body
        if self.count == 0:
            self.base_timestamp = timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1
        return True

    def extend(self, capacity_bytes: int, buffer: bytearray | None = None) -> bytearray | None:
        """Have room for more, in a larger buffer; gives the one that it leaves.

        ``None``, and nothing has changed, if the batch is sealed or the new room would be less.
        """
        larger = bytearray(capacity_bytes) if buffer is None else buffer
        if not isinstance(larger, bytearray):
            raise TypeError("a batch is written into a bytearray")
        if not self.is_open or len(larger) < self.size_bytes or capacity_bytes < self.capacity_bytes:
            return None
        left, self._buffer = self._buffer, larger
        self.capacity_bytes = capacity_bytes
        return left

    def append_columns(self, columns: RecordColumns, start: int, stop: int, now_ms: int) -> int:
        """Add rows until the batch is full; returns how many. A row that no batch can take stops it, too."""
        columns.check_range(start, stop)
        row = start
        while row < stop:
            loaded = columns.load(row, now_ms)
            if loaded is None or not self.put(*loaded):
                break
            row += 1
        return row - start

    def seal(self) -> None:
        """Take no more records."""
        self.is_open = False

    def plain_records(self) -> memoryview:
        """The records, encoded and not compressed."""
        self._check_buffer()
        return memoryview(self._records)[BATCH_OVERHEAD:]

    def _check_buffer(self) -> None:
        if self._buffer is None:
            raise LocalProtocolViolation("the buffer of this batch has been given back")

    def finish(
        self,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records: Buffer | None = None,
    ) -> memoryview:
        """Seal the batch and write its header; the bytes to send are returned.

        ``records`` are the compressed ones if ``attributes`` name a codec. The plain ones stay, and a later
        call without ``records`` keeps the compressed ones: only header and checksum are written again.
        """
        self._check_buffer()
        if self.count == 0:
            raise LocalProtocolViolation("a batch without records is not sent")
        self.is_open = False
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        if records is not None:
            self._packed = bytearray(BATCH_OVERHEAD) + records
        whole = self._records
        if attributes & CODEC_MASK:
            if self._packed is None:
                raise LocalProtocolViolation("a compressed batch needs its compressed records")
            whole = self._packed
        self._write_header(whole, attributes)
        return memoryview(whole)

    def _write_header(self, whole: bytearray, attributes: int) -> None:
        size, last_delta = len(whole) - LOG_OVERHEAD, self.count - 1
        producer = (self.producer_id, self.producer_epoch, self.base_sequence)
        times = (self.base_timestamp, self.max_timestamp)
        HEADER.pack_into(whole, 0, 0, size, -1, 2, 0, attributes, last_delta, *times, *producer, self.count)
        crc = crc32c(memoryview(whole)[CRC_START:])
        whole[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")

    def take_buffer(self) -> bytearray | None:
        """The buffer, which the batch needs no more once it is done; ``None`` if it was taken before."""
        if not self.done:
            raise LocalProtocolViolation("a batch keeps its buffer until it is done")
        buffer, self._buffer = self._buffer, None
        return buffer

    def complete(self, base_offset: int, log_append_time: int = -1) -> bool:
        """The broker has the records; False if the batch was done before. A base offset of -1 is unknown."""
        if self.done:
            return False
        self.base_offset, self.log_append_time = base_offset, log_append_time
        self._settle()
        return True

    def fail(self, error: BaseException) -> bool:
        """The records will not be written; False if the batch was done before."""
        return self.fail_records({}, error)

    def fail_records(self, errors: Mapping[int, BaseException], otherwise: BaseException) -> bool:
        """As ``fail``, with errors of their own for some records, by index."""
        if self.done:
            return False
        self._errors, self.error = dict(errors), otherwise
        self._settle()
        return True

    def _settle(self) -> None:
        self.is_open, self.done = False, True
        callbacks, self._callbacks = self._callbacks, []
        callbacks.sort(key=lambda entry: entry[0].index)
        calls: list[Call] = [
            (function, (delivery,) if wants_delivery else delivery.metadata_and_error())
            for delivery, function, wants_delivery in callbacks
        ]
        if self.waiting is not None:
            self.waiting.deliver(self, calls)
        else:
            for function, arguments in calls:
                function(*arguments)

    def add_callback(self, delivery: Delivery, function: Callable[..., object], wants_delivery: bool) -> None:
        """Call ``function`` when the batch is done, in the order of the records."""
        self._callbacks.append((delivery, function, wants_delivery))

    def error_of(self, index: int) -> BaseException | None:
        return self._errors.get(index, self.error)

    def outcome(self, first_index: int, count: int) -> tuple[int, int, BaseException | None]:
        """Of a range of records: how many were acknowledged, how many failed, and the first error."""
        if not self.is_split:
            if not self.done:
                return 0, 0, None
            return (count, 0, None) if self.error is None else (0, count, self.error_of(first_index))
        acknowledged, failed = 0, 0
        first_error: BaseException | None = None
        for begins, part in zip(self._part_starts, self._parts, strict=True):
            low, high = max(first_index, begins), min(first_index + count, begins + part.count)
            if low < high:
                good, bad, error = part.outcome(low - begins, high - low)
                acknowledged, failed = acknowledged + good, failed + bad
                first_error = first_error or error
        return acknowledged, failed, first_error

    def split(self, capacity_bytes: int) -> list[ProducerBatch]:
        """Move the records into smaller batches, returned sealed; deliveries follow their records."""
        if self.done:
            raise LocalProtocolViolation("a batch that is done has nothing to split")
        self._check_buffer()
        self.is_open = False
        self._parts, self._part_starts = self._cut(capacity_bytes)
        self.is_split = True
        callbacks, self._callbacks = self._callbacks, []
        for delivery, function, wants_delivery in callbacks:
            delivery.batch.add_callback(delivery, function, wants_delivery)
        self._settle()
        return list(self._parts)

    def _cut(self, capacity_bytes: int) -> tuple[list[ProducerBatch], list[int]]:
        parts: list[ProducerBatch] = []
        starts: list[int] = []
        cursor = RecordCursor(memoryview(self._records)[BATCH_OVERHEAD:])
        for index in range(self.count):
            end = cursor.start_record()
            timestamp = wrapped_int64(self.base_timestamp + cursor.varint(10, 64))
            cursor.varint(5, 32)
            key, value = cursor.sized(), cursor.sized()
            tail = cursor.data[cursor.position : end]
            cursor.position = end
            if not parts or not parts[-1].put(timestamp, key, value, tail):
                parts.append(self._part(capacity_bytes))
                parts[-1].put(timestamp, key, value, tail)
                starts.append(index)
        for part in parts:
            part.seal()
        return parts, starts

    def _part(self, capacity_bytes: int) -> ProducerBatch:
        part = ProducerBatch(self.topic, self.partition, capacity_bytes, self.created_ms, None, self.waiting)
        part.split_from = True
        part.in_retry, part.attempts = self.in_retry, self.attempts
        part.last_attempt_ms, part.drained_ms = self.last_attempt_ms, self.drained_ms
        part.tag = self.tag
        return part

    def part_with(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch that holds a record now, and the record's index there."""
        batch = self
        while batch.is_split:
            at = bisect_right(batch._part_starts, index) - 1
            index -= batch._part_starts[at]
            batch = batch._parts[at]
        return batch, index


def refused_delivery(topic: str, partition: int, timestamp: int, error: BaseException) -> Delivery:
    """The delivery of a record that was refused before it came into a batch."""
    batch = ProducerBatch(topic, partition, 0, timestamp)
    batch.fail(error)
    batch.take_buffer()
    delivery = Delivery.__new__(Delivery)
    delivery._batch, delivery.index, delivery.timestamp = batch, 0, timestamp
    delivery.serialized_key_size = delivery.serialized_value_size = -1
    return delivery
