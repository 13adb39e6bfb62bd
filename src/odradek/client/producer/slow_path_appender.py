"""The slow path of ``send``: appends records that the compiled appender's fast path cannot.

It runs in the thread that calls ``send`` and never sleeps. ``PendingAppend.try_append`` either appends the
record or returns what it has to wait for: metadata of a topic, memory, or that the loop catches up. The
caller waits for that in its own way (on a ``threading.Event`` or an ``asyncio.Event``) and tries again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.client.network.metadata import ClusterMetadata, TopicMetadata
from odradek.client.producer.accumulator.buffer_pool import Waiter
from odradek.client.producer.accumulator.shared_state import SharedState
from odradek.client.producer.partitioner import Partitioner
from odradek.client.producer.sticky_partitioner import StickyPartitioner
from odradek.client.values import Headers
from odradek.model.client_errors import ClientClosed, RecordTooLarge, SerializationFailed
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.client.producer import (
    Delivery,
    ProducerBatch,
    RecordAppender,
    partition_for_key,
    record_size_upper_bound,
)
from odradek.records.layout import BATCH_OVERHEAD, INT64_MAX


class Signal(Protocol):
    """The event that ``send`` waits on: ``threading.Event`` or ``asyncio.Event``."""

    def set(self) -> None: ...


class WaitReason(enum.Enum):
    """Reasons why a record cannot be appended yet."""

    METADATA = "the topic, or its partition, is not in the metadata"
    MEMORY = "buffer.memory is exhausted"
    BACKPRESSURE = "too many full batches are queued"


class SerializedRecord(NamedTuple):
    """A record with key and value as bytes; without ``partition`` the producer chooses one."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    partition: int | None
    timestamp_ms: int | None
    on_delivery: Callable[..., object] | None


class AppendLimits(NamedTuple):
    """Limits of records and batches, and whether keys choose partitions."""

    linger_ms: int
    request_bytes_max: int
    memory_bytes: int
    ignores_keys: bool


class SlowPathAppender:
    """Opens batches and appends records to them."""

    def __init__(
        self,
        limits: AppendLimits,
        metadata: Callable[[], ClusterMetadata],
        shared: SharedState,
        sticky_partitioner: StickyPartitioner,
        notifier: Any,
        partitioner: Partitioner | None,
        new_signal: Callable[[], Signal],
        notify: Callable[[int], None],
    ) -> None:
        self._limits = limits
        self._metadata = metadata
        self._accumulator = shared.accumulator
        self._pool = shared.pool
        self._backpressure = shared.backpressure
        self._compression = shared.compression
        self._growth = shared.growth
        self._transaction_manager = shared.transaction_manager
        self._lock = shared.lock
        self._clock = shared.clock
        self._sticky_partitioner = sticky_partitioner
        self._notifier = notifier
        self._partitioner = partitioner
        self._new_signal = new_signal
        self._notify = notify
        self.appender: RecordAppender
        self.is_closed = False
        self.close_reason = "the producer has been closed"

    def begin_append(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: Callable[..., object] | None,
    ) -> PendingAppend:
        """Validate a record; raise if it is invalid or larger than the limits."""
        if self.is_closed:
            raise ClientClosed(self.close_reason)
        if not isinstance(topic, str) or not topic:
            raise ValueError(f"topic must be a non-empty str, got {topic!r}")
        if partition is not None and partition < 0:
            raise ValueError(f"partition must be >= 0, got {partition}")
        if timestamp_ms is not None and timestamp_ms < 0:
            raise ValueError(f"timestamp_ms must be >= 0, got {timestamp_ms}")
        if timestamp_ms is not None and timestamp_ms > INT64_MAX:
            raise ValueError(f"timestamp_ms must be <= 2**63 - 1, got {timestamp_ms}")
        record = SerializedRecord(
            topic,
            _as_bytes(value, "value"),
            _as_bytes(key, "key"),
            _copied_headers(headers),
            partition,
            timestamp_ms,
            on_delivery,
        )
        size_bytes = BATCH_OVERHEAD + record_size_upper_bound(record.key, record.value, record.headers)
        if size_bytes > self._limits.request_bytes_max or size_bytes > self._limits.memory_bytes:
            self._reject_too_large(record, size_bytes)
        return PendingAppend(self, record, size_bytes)

    def _reject_too_large(self, record: SerializedRecord, size_bytes: int) -> None:
        for name, limit in (
            ("max.request.size", self._limits.request_bytes_max),
            ("buffer.memory", self._limits.memory_bytes),
        ):
            if size_bytes > limit:
                error = RecordTooLarge(
                    f"record for topic {record.topic} must fit in {name} ({limit} bytes),"
                    f" got up to {size_bytes} bytes",
                    code=ErrorCode.MESSAGE_TOO_LARGE,
                )
                if self._transaction_manager is not None:
                    self._transaction_manager.send_failed(error)
                raise error

    def try_append(self, pending: PendingAppend) -> WaitReason | None:
        """Append the record, or return what it has to wait for."""
        if self.is_closed:
            raise ClientClosed(self.close_reason)
        record = pending.record
        topic = self._metadata().topics.get(record.topic)
        if topic is None or not topic.partitions:
            return WaitReason.METADATA
        if record.partition is not None and record.partition >= len(topic.partitions):
            return WaitReason.METADATA
        chosen = self._chosen_partition(pending, topic)
        with self._lock:
            # Checked under the lock: a record appended after the close would never be completed.
            if self.is_closed:
                raise ClientClosed(self.close_reason)
            self.appender.set_topic(record.topic, len(topic.partitions))
            is_sticky = chosen is None
            number = self._sticky_partitioner.partition(self.appender, topic) if chosen is None else chosen
            partition = TopicPartition(record.topic, number)
            if self._transaction_manager is not None:
                self._transaction_manager.before_append(partition)
            tail = self._accumulator.tail(partition)
            if tail is not None and not tail.is_open:
                tail = None
            if tail is not None and self._append_to(tail, pending, is_sticky):
                return None
            if pending.may_wait and self._backpressure.is_exceeded(self._accumulator.queued_bytes):
                return self._wait_for_backpressure(pending)
            if tail is not None and self._grow(tail, pending, is_sticky):
                return None
            reason = self._reserve_memory(pending)
            if reason is not None:
                return reason
            due_ms = self._open(pending, partition, is_sticky)
        self._notify(due_ms)
        return None

    def _chosen_partition(self, pending: PendingAppend, topic: TopicMetadata) -> int | None:
        """Return the partition of the record, partitioner or key; None for the sticky partition."""
        record, count = pending.record, len(topic.partitions)
        if record.partition is not None:
            return record.partition
        if self._partitioner is not None:
            number = self._partitioner(record.topic, record.key, record.value, topic.partitions)
            if not 0 <= number < count:
                raise ValueError(
                    f"partitioner must return a partition of topic {record.topic} (0 to {count - 1}),"
                    f" got {number}"
                )
            # Called once per record, however often the record has to wait.
            pending.record = record._replace(partition=number)
            return number
        return (
            None if record.key is None or self._limits.ignores_keys else partition_for_key(record.key, count)
        )

    def _append_to(self, tail: ProducerBatch, pending: PendingAppend, is_sticky: bool) -> bool:
        """Append to an open batch, which another thread may have opened; return whether the record fits."""
        size_before = tail.size_bytes
        pending.delivery = self._append(tail, pending.record)
        if pending.delivery is not None and is_sticky:
            self.appender.add_sticky_bytes(tail.topic, tail.size_bytes - size_before)
        return pending.delivery is not None

    def _wait_for_backpressure(self, pending: PendingAppend) -> WaitReason:
        pending.signal = self._new_signal()
        self._backpressure.add_waiter(pending.signal.set)
        return WaitReason.BACKPRESSURE

    def _grow(self, tail: ProducerBatch, pending: PendingAppend, is_sticky: bool) -> bool:
        """Extend a full batch that is not drained yet, if there is spare memory, and append to it."""
        accumulator, pool = self._accumulator, self._pool
        wanted_bytes = self._growth.next_bytes(tail, pending.size_bytes, self._clock.monotonic_ms())
        held_bytes = accumulator.incomplete[tail]
        if not wanted_bytes or not pool.try_allocate_spare(wanted_bytes - held_bytes):
            return False
        old_buffer = tail.extend(wanted_bytes, pool.buffer(wanted_bytes))
        assert old_buffer is not None, "batches are sealed under the lock, which is held here"
        pool.keep(old_buffer)
        was_ready = accumulator.has_grown(tail)
        accumulator.on_batch_grown(tail, wanted_bytes)
        self.appender.set_open_batch(tail)
        if not was_ready and self._limits.linger_ms:
            self._notify(0)
        return self._append_to(tail, pending, is_sticky)

    def _reserve_memory(self, pending: PendingAppend) -> WaitReason | None:
        """Reserve the memory of a batch for this record, or wait for it."""
        pending.capacity_bytes = self._capacity_bytes(pending.record.topic)
        needed_bytes = max(pending.capacity_bytes, pending.size_bytes)
        waiter = pending.waiter
        if waiter is not None:
            if not waiter.granted or waiter.size_bytes >= needed_bytes:
                return None if waiter.granted else WaitReason.MEMORY
            self._cancel_waiter(pending)
        pending.memory_bytes = needed_bytes
        if self._pool.try_allocate(needed_bytes):
            return None
        pending.waiter = waiter = self._pool.enqueue(needed_bytes)
        if waiter.granted:
            return None
        pending.signal = self._new_signal()
        waiter.wake = pending.signal.set
        return WaitReason.MEMORY

    def _capacity_bytes(self, topic: str) -> int:
        return min(self._compression.capacity_bytes(topic), self._limits.request_bytes_max)

    def _open(self, pending: PendingAppend, partition: TopicPartition, is_sticky: bool) -> int:
        """Open a batch with the record in it; return when it is due."""
        now_ms = self._clock.monotonic_ms()
        memory_bytes = pending.memory_bytes
        capacity_bytes = pending.capacity_bytes
        batch = ProducerBatch(
            partition.topic,
            partition.partition,
            capacity_bytes,
            now_ms,
            self._pool.buffer(memory_bytes),
            self._notifier,
        )
        pending.waiter = None
        try:
            pending.delivery = self._append(batch, pending.record)
        except BaseException:
            self._pool.deallocate(memory_bytes)
            raise
        if is_sticky:
            self.appender.add_sticky_bytes(partition.topic, batch.size_bytes - BATCH_OVERHEAD)
        self._accumulator.add(batch, memory_bytes)
        if batch.size_bytes < capacity_bytes:
            self.appender.set_open_batch(batch)
        is_full = self._accumulator.has_successor(partition) or batch.size_bytes >= capacity_bytes
        return 0 if is_full else now_ms + self._limits.linger_ms

    def _append(self, batch: ProducerBatch, record: SerializedRecord) -> Delivery | None:
        timestamp = self._clock.wall_ms() if record.timestamp_ms is None else record.timestamp_ms
        return batch.append(timestamp, record.key, record.value, record.headers, record.on_delivery)

    def abandon(self, pending: PendingAppend) -> None:
        """Release the memory, or the place in the queue, of a record that will not be appended."""
        with self._lock:
            self._cancel_waiter(pending)

    def _cancel_waiter(self, pending: PendingAppend) -> None:
        waiter, pending.waiter = pending.waiter, None
        if waiter is not None:
            for granted in self._pool.cancel(waiter):
                granted.wake()

    def on_stall(self, pending: PendingAppend) -> None:
        """Stop the backpressure: the broker accepts nothing, and ``buffer.memory`` is the limit."""
        with self._lock:
            if pending.signal is not None:
                self._backpressure.on_stall(pending.signal.set)


class PendingAppend:
    """A record that is being appended."""

    __slots__ = (
        "_slow_path",
        "capacity_bytes",
        "delivery",
        "may_wait",
        "memory_bytes",
        "record",
        "signal",
        "size_bytes",
        "waiter",
    )

    def __init__(self, slow_path: SlowPathAppender, record: SerializedRecord, size_bytes: int) -> None:
        self._slow_path = slow_path
        self.record = record
        self.size_bytes = size_bytes
        self.delivery: Delivery | None = None
        self.waiter: Waiter | None = None
        self.signal: Signal | None = None
        self.capacity_bytes = 0
        self.memory_bytes = 0
        self.may_wait = True

    def try_append(self) -> WaitReason | None:
        return self._slow_path.try_append(self)

    def abandon(self) -> None:
        if self.waiter is not None:
            self._slow_path.abandon(self)

    def on_stall(self) -> None:
        self._slow_path.on_stall(self)


def _as_bytes(data: object, part: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    kind = type(data).__name__
    hint = f'set {part}_serializer="str"' if kind == "str" else f"set a {part}_serializer"
    raise SerializationFailed(f"{part} must be bytes without a serializer, got {kind}; {hint}")


def _copied_headers(headers: Headers) -> tuple[tuple[str, bytes | None], ...] | None:
    """Return a copy of the headers, which the application may change after ``send``."""
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        copied = tuple((_header_name(name), _header_value(name, value)) for name, value in pairs)
    except (TypeError, ValueError) as error:
        raise SerializationFailed(f"headers must be pairs of str and bytes: {error}") from error
    return copied


def _header_name(name: object) -> str:
    if not isinstance(name, str):
        raise SerializationFailed(f"header name must be a str, got {type(name).__name__}")
    name.encode()  # raises here, before the record is appended
    return name


def _header_value(name: object, value: object) -> bytes | None:
    """Return the bytes of a bytes-like value; ``bytes(5)`` would be five zeros."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise SerializationFailed(f"value of header {name!r} must be bytes, got {type(value).__name__}")
