"""Fast path of ``send``: appends a record to the open batch of its partition.

Invariant: a record is appended to an open batch, or passed to ``fallback`` unchanged; never both. The
fallback gets records of unknown topics, fields that are not bytes, a partition that is unknown or without an
open batch with room, headers that are not plain pairs, and everything while ``paused``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard

from odradek.ports.files import Buffer
from odradek.records.layout import INT64_MAX
from odradek.records.pure.delivery import Delivery, OnDelivery
from odradek.records.pure.murmur2 import partition_for_key
from odradek.records.pure.producer_batch import ProducerBatch, encode_headers
from odradek.records.pure.record_columns import RecordColumns

SCHEDULE_MAX: Final = 16
"""Maximum length of a sticky schedule."""

AppendedRanges = list[tuple[ProducerBatch, int, int]]
"""Batches a call appended to, each with the index of the first appended record and their count."""


def _is_plain(field: object) -> TypeGuard[bytes | None]:
    return field is None or type(field) is bytes


def _plain_headers(headers: object) -> bytes | None:
    """Encode headers; ``None`` if they are not plain pairs of str and bytes."""
    if headers is None:
        return encode_headers(None)
    if type(headers) is not list and type(headers) is not tuple:
        return None
    for pair in headers:
        if type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not str or not _is_plain(pair[1]):
            return None
    try:
        return encode_headers(headers)
    except UnicodeEncodeError:
        return None


class _Topic:
    __slots__ = ("batches", "bytes_each", "schedule", "sticky", "sticky_bytes")

    def __init__(self) -> None:
        self.batches: list[ProducerBatch | None] = []
        self.sticky = -1
        self.sticky_bytes = 0
        self.schedule: list[int] = []
        self.bytes_each = 0

    def resize(self, partition_count: int) -> None:
        kept = self.batches[:partition_count]
        self.batches = kept + [None] * (partition_count - len(kept))
        self.schedule = []
        if self.sticky >= partition_count:
            self.sticky = -1

    def advance_sticky(self) -> int:
        if not self.schedule:
            return -1
        self.sticky, self.sticky_bytes = self.schedule.pop(0), 0
        return self.sticky

    def sticky_now(self) -> int:
        if self.schedule and self.sticky_bytes >= self.bytes_each:
            self.advance_sticky()
        return self.sticky

    def open_batch(self, partition: int) -> ProducerBatch | None:
        return self.batches[partition] if 0 <= partition < len(self.batches) else None


class _RangeTracker:
    """Ranges appended by one call, in the order of each batch's first record."""

    __slots__ = ("_firsts",)

    def __init__(self) -> None:
        self._firsts: dict[int, tuple[ProducerBatch, int]] = {}

    def before(self, partition: int, batch: ProducerBatch) -> None:
        if partition not in self._firsts:
            self._firsts[partition] = batch, batch.count

    def ranges(self) -> AppendedRanges:
        return [
            (batch, first, batch.count - first)
            for batch, first in self._firsts.values()
            if batch.count > first
        ]


class RecordAppender:
    """Appends records to the open batches of a producer.

    ``wall_ms`` is the clock; only the compiled appender can do without one, and reads the system's.
    ``ignore_keys`` sends records with keys to the sticky partition, ``explicit_partitions_only`` passes
    records without a partition to ``fallback``.
    """

    __slots__ = ("_explicit_partitions_only", "_fallback", "_ignore_keys", "_topics", "_wall_ms", "paused")

    def __init__(
        self,
        fallback: Callable[..., Any],
        wall_ms: Callable[[], int] | None = None,
        *,
        ignore_keys: bool = False,
        explicit_partitions_only: bool = False,
    ) -> None:
        if wall_ms is None:
            raise ValueError(
                "wall_ms must be a clock, got None: the pure appender has no access to the system's"
            )
        self.paused = False
        self._fallback = fallback
        self._wall_ms = wall_ms
        self._ignore_keys = ignore_keys
        self._explicit_partitions_only = explicit_partitions_only
        self._topics: dict[str, _Topic] = {}

    def set_topic(self, topic: str, partition_count: int) -> None:
        """Set the partition count of a topic; open batches of remaining partitions are kept."""
        if partition_count < 0:
            raise ValueError(f"partition_count must be >= 0, got {partition_count}")
        if topic not in self._topics:
            self._topics[topic] = _Topic()
        if partition_count != len(self._topics[topic].batches):
            self._topics[topic].resize(partition_count)

    def forget_topic(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def set_sticky(self, topic: str, partition: int) -> None:
        """Set the sticky partition (-1 for none) and reset its byte count."""
        slot = self._topics[topic]
        if partition >= len(slot.batches):
            raise ValueError(f"partition of {topic} must be < {len(slot.batches)}, got {partition}")
        slot.sticky, slot.sticky_bytes, slot.schedule = max(partition, -1), 0, []

    def set_sticky_schedule(self, topic: str, partitions: Sequence[int], bytes_each: int) -> None:
        """Set the next sticky partitions, each for ``bytes_each`` bytes; only the first 16 are kept."""
        slot = self._topics[topic]
        schedule = list(partitions)[:SCHEDULE_MAX]
        for number in schedule:
            if not 0 <= number < len(slot.batches):
                raise ValueError(f"partition of {topic} must be in 0..{len(slot.batches) - 1}, got {number}")
        slot.schedule, slot.bytes_each = schedule, bytes_each

    def advance_sticky(self, topic: str) -> int:
        """Advance to the next scheduled sticky partition; -1, and no change, after the last."""
        return self._topics[topic].advance_sticky()

    def sticky(self, topic: str) -> int:
        return self._topics[topic].sticky

    def sticky_bytes(self, topic: str) -> int:
        """Return the bytes appended to the sticky partition since it was set."""
        return self._topics[topic].sticky_bytes

    def add_sticky_bytes(self, topic: str, added: int) -> None:
        """Count bytes appended to the sticky partition by other code."""
        self._topics[topic].sticky_bytes += added

    def set_open_batch(self, batch: ProducerBatch) -> None:
        """Make this the open batch of its partition."""
        slot = self._topics[batch.topic]
        if not 0 <= batch.partition < len(slot.batches):
            raise ValueError(
                f"partition of {batch.topic} must be in 0..{len(slot.batches) - 1}, got {batch.partition}"
            )
        slot.batches[batch.partition] = batch

    def clear_open_batch(self, topic: str, partition: int) -> None:
        slot = self._topics.get(topic)
        if slot is not None and 0 <= partition < len(slot.batches):
            slot.batches[partition] = None

    def open_batch(self, topic: str, partition: int) -> ProducerBatch | None:
        slot = self._topics.get(topic)
        return None if slot is None else slot.open_batch(partition)

    def _timestamp(self, timestamp: object) -> int | None:
        """Return the record's timestamp, by default now; ``None`` if it is invalid."""
        if timestamp is None:
            timestamp = self._wall_ms()
        return timestamp if type(timestamp) is int and 0 <= timestamp <= INT64_MAX else None

    def _slot(self, topic: object, partition: object) -> _Topic | None:
        if self.paused or type(topic) is not str:
            return None
        if partition is None:
            return None if self._explicit_partitions_only else self._topics.get(topic)
        return self._topics.get(topic) if type(partition) is int and partition >= 0 else None

    def _choose(self, slot: _Topic, partition: int | None, key: bytes | None) -> tuple[int, bool]:
        """Return the record's partition, and whether it is the sticky one."""
        if partition is not None:
            return partition, False
        if key is not None and not self._ignore_keys:
            return (partition_for_key(key, len(slot.batches)) if slot.batches else -1), False
        return slot.sticky_now(), True

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Any:
        """Append the record to its open batch and return its delivery, or the result of ``fallback``."""
        if _is_plain(key) and _is_plain(value) and _plain_headers(headers) is not None:
            timestamp = self._timestamp(timestamp_ms)
            slot = None if timestamp is None else self._slot(topic, partition)
            if slot is not None and timestamp is not None:
                delivery = self._append(slot, partition, timestamp, (key, value, headers, on_delivery))
                if delivery is not None:
                    return delivery
        return self._fallback(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    def _append(
        self, slot: _Topic, partition: int | None, timestamp: int, record: tuple[Any, ...]
    ) -> Delivery | None:
        chosen, is_sticky = self._choose(slot, partition, record[0])
        batch = slot.open_batch(chosen)
        if batch is None:
            return None
        before = batch.size_bytes
        delivery = batch.append(timestamp, *record)
        if is_sticky and delivery is not None:
            slot.sticky_bytes += batch.size_bytes - before
        return delivery

    def send_many(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        start: int = 0,
    ) -> tuple[int, AppendedRanges]:
        """Append records from ``start`` on, up to the first that needs the fallback.

        Returns the index of that record (the number of values if there is none) and the appended ranges.
        """
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"keys must be as many as values ({len(values)}), got {len(keys)}")
        if start < 0:
            raise ValueError(f"start must be >= 0, got {start}")
        timestamp = self._timestamp(timestamp_ms)
        slot = None if timestamp is None else self._slot(topic, partition)
        tracker = _RangeTracker()
        row = start
        if slot is not None and timestamp is not None:
            while row < len(values):
                key = None if keys is None else keys[row]
                if not _is_plain(values[row]) or not _is_plain(key):
                    break
                chosen, is_sticky = self._choose(slot, partition, key)
                loaded = timestamp, key, values[row], encode_headers(None)
                if not _put(slot, chosen, is_sticky, loaded, tracker):
                    break
                row += 1
        return row, tracker.ranges()

    def append_columns(
        self, topic: str, columns: RecordColumns, partitions: Buffer | None, start: int, stop: int
    ) -> tuple[int, AppendedRanges]:
        """Append rows as ``send_many`` does; ``partitions`` are int32, -1 for sticky."""
        columns.check_range(start, stop)
        chosen = None if partitions is None else memoryview(partitions).cast("B").cast("i")
        if chosen is not None and len(chosen) < stop:
            raise ValueError(f"partitions must cover {stop} rows, got {len(chosen)}")
        now_ms = self._timestamp(None)
        slot = None if now_ms is None else self._slot(topic, 0)
        tracker = _RangeTracker()
        row = start
        if slot is not None and now_ms is not None:
            while row < stop:
                loaded = columns.load(row, now_ms)
                if loaded is None:
                    break
                is_sticky = chosen is None or chosen[row] < 0
                partition = slot.sticky_now() if chosen is None or is_sticky else chosen[row]
                if not _put(slot, partition, is_sticky, loaded, tracker):
                    break
                row += 1
        return row, tracker.ranges()


def _put(slot: _Topic, partition: int, is_sticky: bool, loaded: Any, tracker: _RangeTracker) -> bool:
    batch = slot.open_batch(partition)
    if batch is None:
        return False
    tracker.before(partition, batch)
    before = batch.size_bytes
    if not batch.put(*loaded):
        return False
    if is_sticky:
        slot.sticky_bytes += batch.size_bytes - before
    return True
