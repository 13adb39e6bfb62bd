"""Sticky partition of records without a key, like Kafka's BuiltInPartitioner.

About ``batch.size`` bytes go to one partition, so that batches fill up; then the next one is drawn. Queue
lengths are read once after each drain, not for each draw.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.network.metadata import TopicMetadata
from odradek.client.producer.accumulator.record_accumulator import RecordAccumulator
from odradek.client.producer.partitioner import LoadTable, load_table, next_sticky
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock

if TYPE_CHECKING:
    from odradek.records.client.producer import RecordAppender


_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_STATE_MASK: Final = (1 << 64) - 1
_SCHEDULE_LENGTH: Final = 16
"""Partitions drawn in advance, as many as an appender stores."""


class PseudoRandom:
    """A linear congruential generator: no system call, not unpredictable."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = state = (self._state * _MULTIPLIER + _INCREMENT) & _STATE_MASK
        return (state >> 33) % bound


class _Load(NamedTuple):
    """Available partitions and their weights, as of a metadata version and a drain."""

    metadata: TopicMetadata
    drains_count: int
    usable: tuple[int, ...]
    table: LoadTable | None


class StickyPartitioner:
    """Draws partitions. ``blocked_since_ms`` holds the nodes that are not ready, and since when."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        clock: Clock,
        seed: int,
        blocked_since_ms: Mapping[int, int],
        *,
        batch_bytes: int,
        adapts: bool,
        availability_timeout_ms: int,
    ) -> None:
        self._accumulator = accumulator
        self._clock = clock
        self._below = PseudoRandom(seed).below
        self._loads: dict[str, _Load] = {}
        self._blocked_since_ms = blocked_since_ms
        self._batch_bytes = batch_bytes
        self._adapts = adapts
        self._availability_timeout_ms = availability_timeout_ms

    def partition(self, appender: RecordAppender, topic: TopicMetadata) -> int:
        """Return the partition of the next record that takes the slow path."""
        current = appender.sticky(topic.name)
        # Batches are a little smaller than batch.size, by the record that did not fit.
        if current >= 0 and appender.sticky_bytes(topic.name) * 2 < self._batch_bytes:
            return current
        if len(topic.partitions) == 1:
            appender.set_sticky(topic.name, 0)
            return 0
        load = self._loads.get(topic.name)
        if (
            load is not None
            and load.drains_count == self._accumulator.drains_count
            and load.metadata is topic
        ):
            drawn = appender.advance_sticky(topic.name)
            if drawn >= 0:
                return drawn
        else:
            load = self._loads[topic.name] = self._load(topic)
        return self._draw(appender, topic, load)

    def _draw(self, appender: RecordAppender, topic: TopicMetadata, load: _Load) -> int:
        """Draw a partition, and the next ones, to which the appender switches by itself."""
        everything = range(len(topic.partitions))
        drawn = [
            next_sticky(everything, load.usable, load.table, self._below) for _ in range(1 + _SCHEDULE_LENGTH)
        ]
        appender.set_sticky(topic.name, drawn[0])
        appender.set_sticky_schedule(topic.name, drawn[1:], self._batch_bytes)
        return drawn[0]

    def _load(self, topic: TopicMetadata) -> _Load:
        drains_count = self._accumulator.drains_count
        usable = self._usable(topic)
        table = None
        if self._adapts and usable:
            queue_length = self._accumulator.queue_length
            lengths = [queue_length(TopicPartition(topic.name, number)) for number in usable]
            table = load_table(usable, lengths)
        return _Load(topic, drains_count, usable, table)

    def _usable(self, topic: TopicMetadata) -> tuple[int, ...]:
        """Return partitions whose leader is ready; all with a leader if there are none."""
        if self._availability_timeout_ms <= 0 or not self._blocked_since_ms or not self._adapts:
            return topic.available
        blocked = self._blocked_nodes()
        usable = tuple(number for number in topic.available if topic.partitions[number].leader not in blocked)
        return usable or topic.available

    def _blocked_nodes(self) -> Collection[int]:
        limit_ms = self._clock.monotonic_ms() - self._availability_timeout_ms
        return {node_id for node_id, since_ms in list(self._blocked_since_ms.items()) if since_ms < limit_ms}
