"""The partition that records without a key stick to, and when another is drawn (Kafka's built-in way).

About ``batch.size`` bytes go to one partition, so that batches get full; then the next one is drawn. How long
the lines of partitions are is looked at after each sending, not at each draw.
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
    from odradek.records.codec import RecordAppender


_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_STATE_MASK: Final = (1 << 64) - 1
_TURNS: Final = 16
"""Partitions drawn in advance, as many as an appender remembers."""


class PseudoRandom:
    """Chance that costs no system call, for what need not be unpredictable: a linear congruence."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = state = (self._state * _MULTIPLIER + _INCREMENT) & _STATE_MASK
        return (state >> 33) % bound


class _Load(NamedTuple):
    """What a draw was last based on, and when."""

    metadata: TopicMetadata
    drains_count: int
    usable: tuple[int, ...]
    table: LoadTable | None


class StickyPartitioner:
    """Draws partitions. ``blocked_since_ms`` names brokers that take nothing, and since when."""

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
        """The partition of the next record, which is about to open a batch or to join another's."""
        now = appender.sticky(topic.name)
        # The last record that did not fit into a batch leaves it a little short of its size.
        if now >= 0 and appender.sticky_bytes(topic.name) * 2 < self._batch_bytes:
            return now
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
        """Draw a partition, and those after it, which the appender goes on to by itself."""
        everything = range(len(topic.partitions))
        drawn = [next_sticky(everything, load.usable, load.table, self._below) for _ in range(1 + _TURNS)]
        appender.set_sticky(topic.name, drawn[0])
        appender.set_sticky_schedule(topic.name, drawn[1:], self._batch_bytes)
        return drawn[0]

    def _load(self, topic: TopicMetadata) -> _Load:
        drains_count = self._accumulator.drains_count
        usable = self._usable(topic)
        table = None
        if self._adapts and usable:
            line_length = self._accumulator.line_length
            lengths = [line_length(TopicPartition(topic.name, number)) for number in usable]
            table = load_table(usable, lengths)
        return _Load(topic, drains_count, usable, table)

    def _usable(self, topic: TopicMetadata) -> tuple[int, ...]:
        """Partitions with a leader that takes batches; all with a leader if there is no such."""
        if self._availability_timeout_ms <= 0 or not self._blocked_since_ms or not self._adapts:
            return topic.available
        stuck = self._stuck_nodes()
        usable = tuple(number for number in topic.available if topic.partitions[number].leader not in stuck)
        return usable or topic.available

    def _stuck_nodes(self) -> Collection[int]:
        bound_ms = self._clock.monotonic_ms() - self._availability_timeout_ms
        return {node_id for node_id, since_ms in list(self._blocked_since_ms.items()) if since_ms < bound_ms}
