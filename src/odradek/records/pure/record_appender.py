"""The one call of every send, in plain Python: what the compiled part must do.

Invariant: a record goes into the open batch of its partition, or to ``slow`` as it was given; never both.
What is slow: a topic that is not set, fields that are not bytes, a partition that is unknown or without an
open batch with room, headers that are not plain pairs, and everything while ``paused``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from odradek.ports.files import Buffer
from odradek.records.layout import INT64_MAX
from odradek.records.pure.delivery import Delivery, OnDelivery
from odradek.records.pure.murmur2 import partition_for_key
from odradek.records.pure.producer_batch import ProducerBatch, encoded_headers
from odradek.records.pure.record_columns import RecordColumns

TURNS_MAX: Final = 16
"""Turns of sticky partitions that are remembered in advance."""

Touched = list[tuple[ProducerBatch, int, int]]
"""Batches that a call wrote to, with the index of its first record there and how many they are."""


def _system_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _is_plain(field: object) -> bool:
    return field is None or type(field) is bytes


def _plain_headers(headers: object) -> bytes | None:
    """Headers as they stand in a record; ``None`` if they are not plainly pairs of text and bytes."""
    if headers is None:
        return encoded_headers(None)
    if type(headers) is not list and type(headers) is not tuple:
        return None
    for pair in headers:
        if type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not str or not _is_plain(pair[1]):
            return None
    return encoded_headers(headers)


class _Topic:
    __slots__ = ("batches", "sticky", "sticky_bytes", "turn_bytes", "turns")

    def __init__(self) -> None:
        self.batches: list[ProducerBatch | None] = []
        self.sticky = -1
        self.sticky_bytes = 0
        self.turns: list[int] = []
        self.turn_bytes = 0

    def resize(self, partition_count: int) -> None:
        kept = self.batches[:partition_count]
        self.batches = kept + [None] * (partition_count - len(kept))
        self.turns = []
        if self.sticky >= partition_count:
            self.sticky = -1

    def advance_sticky(self) -> int:
        if not self.turns:
            return -1
        self.sticky, self.sticky_bytes = self.turns.pop(0), 0
        return self.sticky

    def sticky_now(self) -> int:
        if self.turns and self.sticky_bytes >= self.turn_bytes:
            self.advance_sticky()
        return self.sticky

    def open_batch(self, partition: int) -> ProducerBatch | None:
        return self.batches[partition] if 0 <= partition < len(self.batches) else None


class _Touches:
    """What one call wrote, in the order of each batch's first record."""

    __slots__ = ("_firsts",)

    def __init__(self) -> None:
        self._firsts: dict[int, tuple[ProducerBatch, int]] = {}

    def before(self, partition: int, batch: ProducerBatch) -> None:
        if partition not in self._firsts:
            self._firsts[partition] = batch, batch.count

    def listed(self) -> Touched:
        return [
            (batch, first, batch.count - first)
            for batch, first in self._firsts.values()
            if batch.count > first
        ]


class RecordAppender:
    """Where each record of a producer goes.

    ``wall_ms`` says what time it is; ``None`` asks the system. ``ignore_keys`` leaves records with keys to
    the sticky partition, ``explicit_partitions_only`` leaves those without a given one to ``slow``.
    """

    __slots__ = ("_ignore_keys", "_only_given", "_slow", "_topics", "_wall_ms", "paused")

    def __init__(
        self,
        slow: Callable[..., Any],
        wall_ms: Callable[[], int] | None = None,
        *,
        ignore_keys: bool = False,
        explicit_partitions_only: bool = False,
    ) -> None:
        self.paused = False
        self._slow = slow
        self._wall_ms = _system_ms if wall_ms is None else wall_ms
        self._ignore_keys = ignore_keys
        self._only_given = explicit_partitions_only
        self._topics: dict[str, _Topic] = {}

    def set_topic(self, topic: str, partition_count: int) -> None:
        """A topic has so many partitions; open batches of those that stay are kept."""
        if partition_count < 0:
            raise ValueError("a topic has no negative number of partitions")
        if topic not in self._topics:
            self._topics[topic] = _Topic()
        if partition_count != len(self._topics[topic].batches):
            self._topics[topic].resize(partition_count)

    def forget_topic(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def set_sticky(self, topic: str, partition: int) -> None:
        """The partition of records that have none of their own; counts its bytes anew. -1: there is none."""
        slot = self._topics[topic]
        if partition >= len(slot.batches):
            raise ValueError(f"{topic} has no partition {partition}")
        slot.sticky, slot.sticky_bytes, slot.turns = max(partition, -1), 0, []

    def set_sticky_schedule(self, topic: str, partitions: Sequence[int], turn_bytes: int) -> None:
        """The partitions to stick to after this one, each for so many bytes; the first 16 are remembered."""
        slot = self._topics[topic]
        given = list(partitions)[:TURNS_MAX]
        for number in given:
            if not 0 <= number < len(slot.batches):
                raise ValueError(f"{topic} has no partition {number}")
        slot.turns, slot.turn_bytes = given, turn_bytes

    def advance_sticky(self, topic: str) -> int:
        """Stick to the partition whose turn is next; -1, and nothing has changed, after the last."""
        return self._topics[topic].advance_sticky()

    def sticky(self, topic: str) -> int:
        return self._topics[topic].sticky

    def sticky_bytes(self, topic: str) -> int:
        """Bytes appended to the sticky partition since it was set."""
        return self._topics[topic].sticky_bytes

    def add_sticky_bytes(self, topic: str, added: int) -> None:
        """Count what was appended to the sticky partition without this object."""
        self._topics[topic].sticky_bytes += added

    def set_open_batch(self, batch: ProducerBatch) -> None:
        """This batch takes its partition's records from now on."""
        slot = self._topics[batch.topic]
        if not 0 <= batch.partition < len(slot.batches):
            raise ValueError(f"{batch.topic} has no partition {batch.partition}")
        slot.batches[batch.partition] = batch

    def clear_open_batch(self, topic: str, partition: int) -> None:
        slot = self._topics.get(topic)
        if slot is not None and 0 <= partition < len(slot.batches):
            slot.batches[partition] = None

    def clear_all(self) -> None:
        for slot in self._topics.values():
            slot.batches = [None] * len(slot.batches)

    def open_batch(self, topic: str, partition: int) -> ProducerBatch | None:
        slot = self._topics.get(topic)
        return None if slot is None else slot.open_batch(partition)

    def _now(self, given: object) -> int | None:
        """The record's time; ``None`` if it is none that a record can have."""
        if given is None:
            given = self._wall_ms()
        return given if type(given) is int and 0 <= given <= INT64_MAX else None

    def _slot(self, topic: object, partition: object) -> _Topic | None:
        if self.paused or type(topic) is not str:
            return None
        if partition is None:
            return None if self._only_given else self._topics.get(topic)
        return self._topics.get(topic) if type(partition) is int and partition >= 0 else None

    def _choose(self, slot: _Topic, partition: int | None, key: bytes | None) -> tuple[int, bool]:
        """The record's partition, and whether it is the sticky one."""
        if partition is not None:
            return partition, False
        if key is not None and not self._ignore_keys:
            return (partition_for_key(key, len(slot.batches)) if slot.batches else -1), False
        return slot.sticky_now(), True

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Any:
        """Append the record to its open batch and return its delivery, or whatever ``slow`` returns."""
        if _is_plain(key) and _is_plain(value) and _plain_headers(headers) is not None:
            timestamp = self._now(timestamp_ms)
            slot = None if timestamp is None else self._slot(topic, partition)
            if slot is not None and timestamp is not None:
                delivery = self._append(slot, partition, timestamp, (key, value, headers, on_delivery))
                if delivery is not None:
                    return delivery
        return self._slow(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    def _append(
        self, slot: _Topic, partition: int | None, timestamp: int, record: tuple[Any, ...]
    ) -> Delivery | None:
        chosen, sticks = self._choose(slot, partition, record[0])
        batch = slot.open_batch(chosen)
        if batch is None:
            return None
        before = batch.size_bytes
        delivery = batch.append(timestamp, *record)
        if sticks and delivery is not None:
            slot.sticky_bytes += batch.size_bytes - before
        return delivery

    def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        start: int = 0,
    ) -> tuple[int, Touched]:
        """Append records from ``start`` on, up to the first that must go the slow way.

        Returns the index of that one (the number of values if there is none) and the batches written to.
        """
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(values)} values cannot have {len(keys)} keys")
        if start < 0:
            raise ValueError("rows start at 0")
        timestamp = self._now(timestamp_ms)
        slot = None if timestamp is None else self._slot(topic, partition)
        touches = _Touches()
        row = start
        if slot is not None and timestamp is not None:
            while row < len(values):
                key = None if keys is None else keys[row]
                if not _is_plain(values[row]) or not _is_plain(key):
                    break
                chosen, sticks = self._choose(slot, partition, key)
                loaded = timestamp, key, values[row], encoded_headers(None)
                if not _put(slot, chosen, sticks, loaded, touches):
                    break
                row += 1
        return row, touches.listed()

    def append_columns(
        self, topic: str, columns: RecordColumns, partitions: Buffer | None, start: int, stop: int
    ) -> tuple[int, Touched]:
        """Append rows as ``send_many`` does; ``partitions`` are int32, -1 for the sticky one."""
        columns.check_range(start, stop)
        chosen = None if partitions is None else memoryview(partitions).cast("B").cast("i")
        if chosen is not None and len(chosen) < stop:
            raise ValueError("there are fewer partitions than rows")
        now_ms = self._now(None)
        slot = None if now_ms is None else self._slot(topic, 0)
        touches = _Touches()
        row = start
        if slot is not None and now_ms is not None:
            while row < stop:
                loaded = columns.load(row, now_ms)
                if loaded is None:
                    break
                sticks = chosen is None or chosen[row] < 0
                partition = slot.sticky_now() if chosen is None or sticks else chosen[row]
                if not _put(slot, partition, sticks, loaded, touches):
                    break
                row += 1
        return row, touches.listed()


def _put(slot: _Topic, partition: int, sticks: bool, loaded: Any, touches: _Touches) -> bool:
    batch = slot.open_batch(partition)
    if batch is None:
        return False
    touches.before(partition, batch)
    before = batch.size_bytes
    if not batch.put(*loaded):
        return False
    if sticks:
        slot.sticky_bytes += batch.size_bytes - before
    return True
