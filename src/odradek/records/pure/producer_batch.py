"""Batch of a producer.

Invariant: everything here and its namesake in ``compiled.producer`` produce equal bytes and results. A
batch is open, then sealed, then done: completed, failed or split, once. Later calls change nothing. Threads
may append while another one seals: each call is atomic.
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
from odradek.records.pure.delivery import Call, CompletionWaiter, Delivery, OnDelivery
from odradek.records.pure.record_batch import (
    RecordCursor,
    crc32c,
    put_headers,
    put_sized,
    put_varint,
    wrapped_int64,
)
from odradek.records.pure.record_columns import RecordColumns

HeaderPairs = Iterable[tuple[str, Buffer | None]]

_NO_HEADERS: Final = b"\0"
_NUMBERS_BYTES_MAX: Final = 1 + 5 + 10 + 5 + 5 + 5
"""Attributes, length, timestamp, offset, and sizes of key and value."""


def encode_headers(headers: HeaderPairs | None) -> bytes:
    """Encode the header count and the headers of a record."""
    if headers is None:
        return _NO_HEADERS
    out = bytearray()
    put_headers(out, headers)
    return bytes(out)


def record_size_upper_bound(
    key: Buffer | None, value: Buffer | None, headers: HeaderPairs | None = None
) -> int:
    """Return an upper bound of a record's size in a batch."""
    fields = sum(0 if field is None else memoryview(field).nbytes for field in (key, value))
    return _NUMBERS_BYTES_MAX + fields + len(encode_headers(headers))


class ProducerBatch:
    """Records to one partition, encoded into one buffer after space for the header.

    ``capacity_bytes`` includes the header and the uncompressed records; the first record always fits.
    ``attempts`` to ``tag`` are set by the sender.
    """

    __slots__ = (
        "_buffer",
        "_callbacks",
        "_compressed",
        "_errors",
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
        "tag",
        "topic",
        "waiter",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        capacity_bytes: int,
        created_ms: int,
        buffer: bytearray | None = None,
        waiter: CompletionWaiter | None = None,
    ) -> None:
        if buffer is not None and not isinstance(buffer, bytearray):
            raise TypeError(f"buffer must be a bytearray, got {type(buffer).__name__}")
        self.topic = topic
        self.partition = partition
        self.capacity_bytes = capacity_bytes
        self.created_ms = created_ms
        self.waiter = waiter
        self.count = 0
        self.base_timestamp = self.max_timestamp = self.base_offset = self.log_append_time = -1
        self.is_open, self.done, self.is_split = True, False, False
        self.error: BaseException | None = None
        self.attempts = self.last_attempt_ms = self.drained_ms = 0
        self.base_sequence = self.producer_id = self.producer_epoch = -1
        self.in_retry = False
        self.tag: object = None
        # Only the compiled batch encodes into the buffer; here it is only kept for ``take_buffer``.
        self._buffer: bytearray | None = bytearray(max(capacity_bytes, BATCH_OVERHEAD))
        if buffer is not None:
            self._buffer = buffer
        self._compressed: bytearray | None = None
        self._records = bytearray(BATCH_OVERHEAD)
        self._callbacks: list[tuple[Delivery, Callable[..., object], bool]] = []
        self._errors: Mapping[int, BaseException] = {}
        self._parts: list[ProducerBatch] = []
        self._part_starts: list[int] = []

    @property
    def size_bytes(self) -> int:
        """Size of the uncompressed batch, with its header."""
        return len(self._records)

    @property
    def parts(self) -> list[ProducerBatch]:
        """Parts of a split batch; empty for others."""
        return list(self._parts) if self.is_split else []

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeaderPairs | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """Add a record; ``None`` if the batch is sealed or full."""
        if timestamp < -1:
            raise LocalProtocolViolation(f"timestamp must be >= -1, got {timestamp}")
        if not self.put(timestamp, key, value, encode_headers(headers)):
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
        """Add a record with encoded headers; return False if the batch is sealed or full."""
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
            raise LocalProtocolViolation("size of a batch must be <= 2 GiB")
        self._records += record
        self._records += body
        if self.count == 0:
            self.base_timestamp = timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1
        return True

    def extend(self, capacity_bytes: int, buffer: bytearray | None = None) -> bytearray | None:
        """Increase the capacity with a larger buffer; return the old one.

        Returns ``None``, and changes nothing, if the batch is sealed or the new capacity is smaller.
        """
        larger = bytearray(capacity_bytes) if buffer is None else buffer
        if not isinstance(larger, bytearray):
            raise TypeError(f"buffer must be a bytearray, got {type(buffer).__name__}")
        if not self.is_open or len(larger) < self.size_bytes or capacity_bytes < self.capacity_bytes:
            return None
        previous, self._buffer = self._buffer, larger
        self.capacity_bytes = capacity_bytes
        return previous

    def append_columns(self, columns: RecordColumns, start: int, stop: int, now_ms: int) -> int:
        """Add rows until the batch is full or a row cannot be encoded; return how many."""
        columns.check_range(start, stop)
        row = start
        while row < stop:
            loaded = columns.load(row, now_ms)
            if loaded is None or not self.put(*loaded):
                break
            row += 1
        return row - start

    def seal(self) -> None:
        """Close the batch for appends."""
        self.is_open = False

    def plain_records(self) -> memoryview:
        """Return the encoded, uncompressed records."""
        self._check_buffer()
        return memoryview(self._records)[BATCH_OVERHEAD:]

    def _check_buffer(self) -> None:
        if self._buffer is None:
            raise LocalProtocolViolation("the batch's buffer was already taken")

    def finish(
        self,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records: Buffer | None = None,
    ) -> memoryview:
        """Seal the batch and write its header; return the bytes to send.

        ``records`` are the compressed records if ``attributes`` have a codec. The uncompressed ones are kept,
        and a later call without ``records`` reuses the compressed ones: only header and CRC are written
        again.
        """
        self._check_buffer()
        if self.count == 0:
            raise LocalProtocolViolation("batch must have records")
        self.is_open = False
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        if records is not None:
            self._compressed = bytearray(BATCH_OVERHEAD) + records
        data = self._records
        if attributes & CODEC_MASK:
            if self._compressed is None:
                raise LocalProtocolViolation("compressed batch needs its compressed records")
            data = self._compressed
        self._write_header(data, attributes)
        return memoryview(data)

    def _write_header(self, data: bytearray, attributes: int) -> None:
        size, last_delta = len(data) - LOG_OVERHEAD, self.count - 1
        producer = (self.producer_id, self.producer_epoch, self.base_sequence)
        times = (self.base_timestamp, self.max_timestamp)
        HEADER.pack_into(data, 0, 0, size, -1, 2, 0, attributes, last_delta, *times, *producer, self.count)
        crc = crc32c(memoryview(data)[CRC_START:])
        data[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")

    def take_buffer(self) -> bytearray | None:
        """Return the buffer of a batch that is done, for reuse; ``None`` if it was already taken."""
        if not self.done:
            raise LocalProtocolViolation("the buffer can only be taken from a batch that is done")
        buffer, self._buffer = self._buffer, None
        return buffer

    def complete(self, base_offset: int, log_append_time: int = -1) -> bool:
        """Complete the batch as acknowledged; False if it was already done. Base offset -1 means unknown."""
        if self.done:
            return False
        self.base_offset, self.log_append_time = base_offset, log_append_time
        self._finish()
        return True

    def fail(self, error: BaseException) -> bool:
        """Complete the batch as failed; False if it was already done."""
        return self.fail_records({}, error)

    def fail_records(self, errors: Mapping[int, BaseException], default: BaseException) -> bool:
        """Complete the batch as failed, with own errors for some records by index."""
        if self.done:
            return False
        self._errors, self.error = dict(errors), default
        self._finish()
        return True

    def _finish(self) -> None:
        self.is_open, self.done = False, True
        callbacks, self._callbacks = self._callbacks, []
        callbacks.sort(key=lambda entry: entry[0].index)
        calls: list[Call] = [
            (function, (delivery,) if wants_delivery else delivery.metadata_and_error())
            for delivery, function, wants_delivery in callbacks
        ]
        if self.waiter is not None:
            self.waiter.deliver(self, calls)
        else:
            for function, arguments in calls:
                function(*arguments)

    def add_callback(self, delivery: Delivery, function: Callable[..., object], wants_delivery: bool) -> None:
        """Register a callback for completion; callbacks run in record order."""
        self._callbacks.append((delivery, function, wants_delivery))

    def error_of(self, index: int) -> BaseException | None:
        return self._errors.get(index, self.error)

    def outcome(self, first_index: int, count: int) -> tuple[int, int, BaseException | None]:
        """Return acknowledged count, failed count and first error of a range of records."""
        if not self.is_split:
            if not self.done:
                return 0, 0, None
            return (count, 0, None) if self.error is None else (0, count, self.error_of(first_index))
        acknowledged, failed = 0, 0
        first_error: BaseException | None = None
        for start, part in zip(self._part_starts, self._parts, strict=True):
            low, high = max(first_index, start), min(first_index + count, start + part.count)
            if low < high:
                part_acknowledged, part_failed, error = part.outcome(low - start, high - low)
                acknowledged, failed = acknowledged + part_acknowledged, failed + part_failed
                first_error = first_error or error
        return acknowledged, failed, first_error

    def split(self, capacity_bytes: int) -> list[ProducerBatch]:
        """Move the records to smaller, sealed batches; deliveries follow their records."""
        if self.done:
            raise LocalProtocolViolation("batch must not be done")
        self._check_buffer()
        self.is_open = False
        self._parts, self._part_starts = self._split_records(capacity_bytes)
        self.is_split = True
        callbacks, self._callbacks = self._callbacks, []
        for delivery, function, wants_delivery in callbacks:
            delivery.batch.add_callback(delivery, function, wants_delivery)
        self._finish()
        return list(self._parts)

    def _split_records(self, capacity_bytes: int) -> tuple[list[ProducerBatch], list[int]]:
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
                parts.append(self._new_part(capacity_bytes))
                parts[-1].put(timestamp, key, value, tail)
                starts.append(index)
        for part in parts:
            part.seal()
        return parts, starts

    def _new_part(self, capacity_bytes: int) -> ProducerBatch:
        part = ProducerBatch(self.topic, self.partition, capacity_bytes, self.created_ms, None, self.waiter)
        part.in_retry, part.attempts = self.in_retry, self.attempts
        part.last_attempt_ms, part.drained_ms = self.last_attempt_ms, self.drained_ms
        part.tag = self.tag
        return part

    def find_part(self, index: int) -> tuple[ProducerBatch, int]:
        """Return the batch that has a record after any splits, and the record's index there."""
        batch = self
        while batch.is_split:
            number = bisect_right(batch._part_starts, index) - 1
            index -= batch._part_starts[number]
            batch = batch._parts[number]
        return batch, index
