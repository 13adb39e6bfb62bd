"""A consumer that reads offset ranges of partitions one after another, as columns.

No fetch is sent after the end of a range: none waits at the end of a log when the next range starts. Records
fetched beyond it are kept, and a range that starts where the last one ended continues from there.
"""

from __future__ import annotations

from typing import Final

from odradek.client.blocking.consumer import Consumer
from odradek.client.consumer.positions.partition_state import TopicPartitionState
from odradek.model.client_errors import InvalidState
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import ColumnBuilder

_NO_RANGE: Final = "a range must be started first; call begin_range()"


class RangeConsumer(Consumer):
    """A consumer without group. Call ``begin_range`` first, then ``fill`` until ``is_done``."""

    _range: tuple[TopicPartition, int] | None = None
    """Partition and stop offset of the current range."""
    _start_offset: int | None = None
    """Start offset of a range that the first ``fill`` has yet to begin."""
    _finished: tuple[TopicPartition, int, int] | None = None
    """A finished range: partition, stop offset, and the position, up to which there are no more records."""

    def begin_range(self, partition: TopicPartition, start_offset: int, stop_offset: int) -> None:
        """Start to read a partition from an offset up to, but not including, another."""
        with self._guard:
            self._start_offset = self._resume_offset(partition, start_offset)
            self._range = (partition, stop_offset)
            self._finished = None

    def _resume_offset(self, partition: TopicPartition, start_offset: int) -> int:
        """Return the position of a finished range that this one continues, to use the fetched records."""
        if self._finished is not None and self._finished[:2] == (partition, start_offset):
            return self._finished[2]
        return start_offset

    @property
    def range_position(self) -> int:
        """The next offset of the range to read."""
        if self._start_offset is not None:
            return self._start_offset
        position = self._state().position
        assert position is not None, "a started range has a position"
        return position.offset

    @property
    def is_done(self) -> bool:
        """True if the range has been read completely."""
        if self._range is None:
            raise InvalidState(_NO_RANGE)
        return self.range_position >= self._range[1]

    def fill(self, columns: ColumnBuilder, rows_max: int, timeout_s: float) -> int:
        """Add the next rows of the range; return their number, 0 if done or after ``timeout_s``."""
        with self._guard:
            engine = self._engine
            deadline_ms = engine.deadline_ms(timeout_s)
            is_fetched = self._start_offset is None and engine.begin_poll()
            count = engine.take_columns(rows_max, columns) if is_fetched else 0
            while not count and not self.is_done:
                self._thread.call(self._wait_for_records, max(deadline_ms - engine.now_ms(), 0))
                count = engine.take_columns(rows_max, columns)
                if engine.now_ms() >= deadline_ms:
                    break
            if self.is_done and self._range is not None:
                self._finished = (*self._range, self.range_position)
            return count

    def log_bounds(self, timeout_s: float) -> tuple[int, int]:
        """Return the current beginning and end offset of the range's partition."""
        with self._guard:
            if self._range is None:
                raise InvalidState(_NO_RANGE)
            return self._thread.run(self._fetch_bounds(self._range[0]), timeout_s)

    async def _fetch_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        beginning = await self._client.beginning_offsets([partition])
        end = await self._client.end_offsets([partition])
        return beginning[partition], end[partition]

    async def _wait_for_records(self, timeout_ms: int) -> None:
        if self._start_offset is not None and self._range is not None:
            partition, stop_offset = self._range
            self._engine.read_range(partition, self._start_offset, stop_offset)
            self._start_offset = None
        await self._engine.wait_for_records(timeout_ms)

    def _state(self) -> TopicPartitionState:
        if self._range is None:
            raise InvalidState(_NO_RANGE)
        return self._engine.subscription.of(self._range[0])
