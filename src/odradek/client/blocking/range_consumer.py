"""A consumer that reads ranges of partitions one after another, as columns.

Nothing is fetched beyond what holds a range's end: no request waits at the end of a log when the next range
is begun. What an answer brought beyond it stays, and the range that begins where the last one ended reads on
from there.
"""

from __future__ import annotations

from odradek.client.blocking.consumer import Consumer
from odradek.client.consumer.positions.partition_state import TopicPartitionState
from odradek.model.client_errors import InvalidState
from odradek.model.ids import TopicPartition
from odradek.records.codec import ColumnBuilder


class RangeConsumer(Consumer):
    """Belongs to no group. ``begin_range`` first, then ``fill`` until ``is_done``."""

    _range: tuple[TopicPartition, int] | None = None
    """What is being read, and where that stops."""
    _from: int | None = None
    """Where a range is to be begun: the first ``fill`` does that on its way."""
    _ended: tuple[TopicPartition, int, int] | None = None
    """A range that was read to its end: where it stopped, and how far there is nothing more."""

    def begin_range(self, partition: TopicPartition, start_offset: int, stop_offset: int) -> None:
        """Read a partition from an offset up to, and without, another; what was read before is left."""
        with self._guard:
            self._from = self._go_on_from(partition, start_offset)
            self._range = (partition, stop_offset)
            self._ended = None

    def _go_on_from(self, partition: TopicPartition, start_offset: int) -> int:
        """Behind what is known to be empty: the position is there, and what was fetched follows it."""
        if self._ended is not None and self._ended[:2] == (partition, start_offset):
            return self._ended[2]
        return start_offset

    @property
    def range_position(self) -> int:
        """The next offset to read of the range."""
        if self._from is not None:
            return self._from
        position = self._state().position
        assert position is not None, "a range that was begun has a position"
        return position.offset

    @property
    def is_done(self) -> bool:
        """Whether the range is read to its end."""
        if self._range is None:
            raise InvalidState("no range was begun")
        return self.range_position >= self._range[1]

    def fill(self, columns: ColumnBuilder, rows_max: int, timeout_s: float) -> int:
        """Add the next rows of the range; none if it is done, or if none came within ``timeout_s``."""
        with self._guard:
            engine = self._engine
            deadline_ms = engine.deadline_ms(timeout_s)
            is_at_hand = self._from is None and engine.begin_poll()
            count = engine.take_columns(rows_max, columns) if is_at_hand else 0
            while not count and not self.is_done:
                self._thread.call(self._wait_for_records, max(deadline_ms - engine.now_ms(), 0))
                count = engine.take_columns(rows_max, columns)
                if engine.now_ms() >= deadline_ms:
                    break
            if self.is_done and self._range is not None:
                self._ended = (*self._range, self.range_position)
            return count

    def log_bounds(self, timeout_s: float) -> tuple[int, int]:
        """The first offset of the range's partition and the one after its last, as brokers say now."""
        with self._guard:
            if self._range is None:
                raise InvalidState("no range was begun")
            return self._thread.run(self._bounds_of(self._range[0]), timeout_s)

    async def _bounds_of(self, partition: TopicPartition) -> tuple[int, int]:
        first = await self._client.beginning_offsets([partition])
        after_last = await self._client.end_offsets([partition])
        return first[partition], after_last[partition]

    async def _wait_for_records(self, timeout_ms: int) -> None:
        if self._from is not None and self._range is not None:
            partition, stop_offset = self._range
            self._engine.read_range(partition, self._from, stop_offset)
            self._from = None
        await self._engine.wait_for_records(timeout_ms)

    def _state(self) -> TopicPartitionState:
        if self._range is None:
            raise InvalidState("no range was begun")
        return self._engine.subscription.of(self._range[0])
