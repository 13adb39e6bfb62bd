"""Where a record finds its batch: the part of ``send`` that the appender's fast path cannot do.

It runs where ``send`` was called and never sleeps. ``PendingAppend.step`` either places the record or says
what it
needs: metadata of a topic, memory, or that the loop catches up. Whoever calls waits for that in its own way
(a thread on its event, a task on its own) and steps again.
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
from odradek.records.codec import (
    Delivery,
    ProducerBatch,
    RecordAppender,
    partition_for_key,
    record_size_upper_bound,
)
from odradek.records.layout import BATCH_OVERHEAD, INT64_MAX


class Signal(Protocol):
    """What a sender waits on: ``threading.Event`` or ``asyncio.Event``."""

    def set(self) -> None: ...


class WaitReason(enum.Enum):
    """What stands between a record and its batch."""

    TOPIC = "metadata of the topic, or of a partition that it does not have yet"
    MEMORY = "room within buffer.memory"
    PACE = "the loop to carry off what is queued"


class SerializedRecord(NamedTuple):
    """A record whose key and value are bytes; ``partition`` None leaves the choice to the producer."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    partition: int | None
    timestamp_ms: int | None
    on_delivery: Callable[..., object] | None


class AppendLimits(NamedTuple):
    """What bounds records and batches, and whether keys choose partitions."""

    linger_ms: int
    request_bytes_max: int
    memory_bytes: int
    ignores_keys: bool


class SlowPathAppender:
    """Opens batches and puts records into them."""

    def __init__(
        self,
        limits: AppendLimits,
        metadata: Callable[[], ClusterMetadata],
        stock: SharedState,
        sticking: StickyPartitioner,
        waiting: Any,
        partitioner: Partitioner | None,
        new_signal: Callable[[], Signal],
        notify: Callable[[int], None],
    ) -> None:
        self._limits = limits
        self._image = metadata
        self._accumulator = stock.accumulator
        self._pool = stock.pool
        self._pace = stock.pace
        self._packing = stock.packing
        self._growth = stock.growth
        self._order = stock.order
        self._lock = stock.lock
        self._clock = stock.clock
        self._sticking = sticking
        self._waiting = waiting
        self._partitioner = partitioner
        self._new_signal = new_signal
        self._notify = notify
        self.appender: RecordAppender
        self.is_closed = False
        self.closed_because = "the producer has been closed"

    def placing(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: Callable[..., object] | None,
    ) -> PendingAppend:
        """Begin to place a record; raises what no waiting can mend."""
        if self.is_closed:
            raise ClientClosed(self.closed_because)
        if not isinstance(topic, str) or not topic:
            raise ValueError(f"a topic is a text that is not empty, not {topic!r}")
        if partition is not None and partition < 0:
            raise ValueError(f"partitions are counted from 0: there is none {partition}")
        if timestamp_ms is not None and timestamp_ms < 0:
            raise ValueError(f"a record's time is not before 1970: {timestamp_ms}")
        if timestamp_ms is not None and timestamp_ms > INT64_MAX:
            raise ValueError(f"a record's time in ms has 63 bits at most: {timestamp_ms}")
        record = SerializedRecord(
            topic,
            _plain(value, "value"),
            _plain(key, "key"),
            _frozen(headers),
            partition,
            timestamp_ms,
            on_delivery,
        )
        size_bytes = BATCH_OVERHEAD + record_size_upper_bound(record.key, record.value, record.headers)
        if size_bytes > self._limits.request_bytes_max or size_bytes > self._limits.memory_bytes:
            self._refuse_too_large(record, size_bytes)
        return PendingAppend(self, record, size_bytes)

    def _refuse_too_large(self, record: SerializedRecord, size_bytes: int) -> None:
        for name, bound in (
            ("max.request.size", self._limits.request_bytes_max),
            ("buffer.memory", self._limits.memory_bytes),
        ):
            if size_bytes > bound:
                refused = RecordTooLarge(
                    f"a record for {record.topic} may take {size_bytes} bytes, and {name} is {bound}",
                    code=ErrorCode.MESSAGE_TOO_LARGE,
                )
                if self._order is not None:
                    self._order.send_failed(refused)
                raise refused

    def step(self, placing: PendingAppend) -> WaitReason | None:
        """Place the record, or say what it needs first."""
        if self.is_closed:
            raise ClientClosed(self.closed_because)
        record = placing.record
        topic = self._image().topics.get(record.topic)
        if topic is None or not topic.partitions:
            return WaitReason.TOPIC
        if record.partition is not None and record.partition >= len(topic.partitions):
            return WaitReason.TOPIC
        chosen = self._chosen(placing, topic)
        with self._lock:
            # Nobody closes while the lock is held; what was placed after that would never be told of.
            if self.is_closed:
                raise ClientClosed(self.closed_because)
            self.appender.set_topic(record.topic, len(topic.partitions))
            sticks = chosen is None
            number = self._sticking.partition(self.appender, topic) if chosen is None else chosen
            partition = TopicPartition(record.topic, number)
            if self._order is not None:
                self._order.before_append(partition)
            tail = self._accumulator.tail(partition)
            if tail is not None and not tail.is_open:
                tail = None
            if tail is not None and self._append_to(tail, placing, sticks):
                return None
            if placing.may_wait and self._pace.is_too_fast(self._accumulator.queued_bytes):
                return self._hold_back(placing)
            if tail is not None and self._grow(tail, placing, sticks):
                return None
            need = self._room(placing)
            if need is not None:
                return need
            due_ms = self._open(placing, partition, sticks)
        self._notify(due_ms)
        return None

    def _chosen(self, placing: PendingAppend, topic: TopicMetadata) -> int | None:
        """The partition that was given or follows from the key; None leaves it to stick."""
        record, count = placing.record, len(topic.partitions)
        if record.partition is not None:
            return record.partition
        if self._partitioner is not None:
            number = self._partitioner(record.topic, record.key, record.value, topic.partitions)
            if not 0 <= number < count:
                raise ValueError(f"the partitioner chose {number}, and {record.topic} has {count} partitions")
            # Asked once for each record, however often the record has to wait.
            placing.record = record._replace(partition=number)
            return number
        return (
            None if record.key is None or self._limits.ignores_keys else partition_for_key(record.key, count)
        )

    def _append_to(self, tail: ProducerBatch, placing: PendingAppend, sticks: bool) -> bool:
        """Somebody else may have opened a batch meanwhile, or drained none yet."""
        before = tail.size_bytes
        placing.delivery = self._append(tail, placing.record)
        if placing.delivery is not None and sticks:
            self.appender.add_sticky_bytes(tail.topic, tail.size_bytes - before)
        return placing.delivery is not None

    def _hold_back(self, placing: PendingAppend) -> WaitReason:
        placing.signal = self._new_signal()
        self._pace.wait(placing.signal.set)
        return WaitReason.PACE

    def _grow(self, tail: ProducerBatch, placing: PendingAppend, sticks: bool) -> bool:
        """Make room for the record in a full batch that has not left yet, if there is memory to spare."""
        accumulator, pool = self._accumulator, self._pool
        wanted_bytes = self._growth.next_bytes(tail, placing.size_bytes, self._clock.monotonic_ms())
        held_bytes = accumulator.incomplete[tail]
        if not wanted_bytes or not pool.take_spare(wanted_bytes - held_bytes):
            return False
        left = tail.extend(wanted_bytes, pool.buffer(wanted_bytes))
        assert left is not None, "whoever seals a batch holds the lock, which is ours now"
        pool.keep(left)
        was_ready = accumulator.has_grown(tail)
        accumulator.grew(tail, wanted_bytes)
        self.appender.set_open_batch(tail)
        if not was_ready and self._limits.linger_ms:
            self._notify(0)
        return self._append_to(tail, placing, sticks)

    def _room(self, placing: PendingAppend) -> WaitReason | None:
        """See that there is memory for a batch of this record."""
        placing.capacity_bytes = self._capacity_bytes(placing.record.topic)
        wanted = max(placing.capacity_bytes, placing.size_bytes)
        waiter = placing.waiter
        if waiter is not None:
            if not waiter.granted or waiter.size_bytes >= wanted:
                return None if waiter.granted else WaitReason.MEMORY
            self._leave(placing)
        placing.memory_bytes = wanted
        if self._pool.take(wanted):
            return None
        placing.waiter = waiter = self._pool.queue(wanted)
        if waiter.granted:
            return None
        placing.signal = self._new_signal()
        waiter.wake = placing.signal.set
        return WaitReason.MEMORY

    def _capacity_bytes(self, topic: str) -> int:
        return min(self._packing.capacity_bytes(topic), self._limits.request_bytes_max)

    def _open(self, placing: PendingAppend, partition: TopicPartition, sticks: bool) -> int:
        """Open a batch with the record in it; gives when it is due."""
        now_ms = self._clock.monotonic_ms()
        memory_bytes = placing.memory_bytes
        capacity_bytes = placing.capacity_bytes
        batch = ProducerBatch(
            partition.topic,
            partition.partition,
            capacity_bytes,
            now_ms,
            self._pool.buffer(memory_bytes),
            self._waiting,
        )
        placing.waiter = None
        try:
            placing.delivery = self._append(batch, placing.record)
        except BaseException:
            self._pool.give_back(memory_bytes)
            raise
        if sticks:
            self.appender.add_sticky_bytes(partition.topic, batch.size_bytes - BATCH_OVERHEAD)
        self._accumulator.add(batch, memory_bytes)
        if batch.size_bytes < capacity_bytes:
            self.appender.set_open_batch(batch)
        is_full = self._accumulator.has_company(partition) or batch.size_bytes >= capacity_bytes
        return 0 if is_full else now_ms + self._limits.linger_ms

    def _append(self, batch: ProducerBatch, record: SerializedRecord) -> Delivery | None:
        timestamp = self._clock.wall_ms() if record.timestamp_ms is None else record.timestamp_ms
        return batch.append(timestamp, record.key, record.value, record.headers, record.on_delivery)

    def abandon(self, placing: PendingAppend) -> None:
        """The record will not be placed: let go of its turn."""
        with self._lock:
            self._leave(placing)

    def _leave(self, placing: PendingAppend) -> None:
        waiter, placing.waiter = placing.waiter, None
        if waiter is not None:
            for granted in self._pool.leave(waiter):
                granted.wake()

    def gave_up_waiting(self, placing: PendingAppend) -> None:
        """The loop did not catch up in time: its broker takes nothing, so go on and fill the memory."""
        with self._lock:
            if placing.signal is not None:
                self._pace.gave_up(placing.signal.set)


class PendingAppend:
    """One record on its way into a batch."""

    __slots__ = (
        "_intake",
        "capacity_bytes",
        "delivery",
        "may_wait",
        "memory_bytes",
        "record",
        "signal",
        "size_bytes",
        "waiter",
    )

    def __init__(self, intake: SlowPathAppender, record: SerializedRecord, size_bytes: int) -> None:
        self._intake = intake
        self.record = record
        self.size_bytes = size_bytes
        self.delivery: Delivery | None = None
        self.waiter: Waiter | None = None
        self.signal: Signal | None = None
        self.capacity_bytes = 0
        self.memory_bytes = 0
        self.may_wait = True

    def step(self) -> WaitReason | None:
        return self._intake.step(self)

    def abandon(self) -> None:
        if self.waiter is not None:
            self._intake.abandon(self)

    def gave_up_waiting(self) -> None:
        self._intake.gave_up_waiting(self)


def _plain(given: object, part: str) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    kind = type(given).__name__
    hint = f'; give {part}_serializer="str"' if kind == "str" else f"; give a {part}_serializer"
    raise SerializationFailed(f"a {part} without serializer must be bytes, not {kind}{hint}")


def _frozen(headers: Headers) -> tuple[tuple[str, bytes | None], ...] | None:
    """Headers as they are now, whatever becomes of the object that held them."""
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        frozen = tuple((_header_name(name), _header_value(name, value)) for name, value in pairs)
    except (TypeError, ValueError) as wrong:
        raise SerializationFailed(f"headers are pairs of a text and bytes: {wrong}") from wrong
    return frozen


def _header_name(name: object) -> str:
    if not isinstance(name, str):
        raise SerializationFailed(f"a header's name is a text, not {type(name).__name__}")
    name.encode()  # raises where it would in the midst of a batch
    return name


def _header_value(name: object, value: object) -> bytes | None:
    """``bytes`` of a number would be so many zeros: only what is bytes already is taken."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise SerializationFailed(f"the value of header {name!r} must be bytes, not {type(value).__name__}")
