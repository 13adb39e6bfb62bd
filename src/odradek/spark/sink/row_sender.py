"""Sending of a task's rows, and the commit message that a task returns to the driver.

Invariant: the result of ``send_rows`` counts acknowledged records only; a failed record raises. Memory is
bounded by the producer's ``buffer.memory``: sending blocks, and completed deliveries are counted and freed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from odradek.spark.sink.rows import select_columns

if TYPE_CHECKING:
    import pyarrow

    from odradek.client.blocking.producer import Producer
    from odradek.client.producer.deliveries import Deliveries


class WrittenRange(NamedTuple):
    """Offsets that a task wrote to a partition; records of other producers may be in between."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records_count: int


class OpenTransaction(NamedTuple):
    """A transaction that a task leaves for the driver to end."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Replay(NamedTuple):
    """A task's part of a replay of a partly written batch, for the driver to check and commit."""

    query: str
    attempt: str
    transaction: OpenTransaction | None = None
    problem: str | None = None
    """Reason why the rows differ from those written before."""


@dataclass(frozen=True)
class TaskCommitMessage(WriterCommitMessage):
    """Result of one task. ``is_skipped``: an earlier attempt had written its rows."""

    rows_count: int
    ranges: tuple[WrittenRange, ...] = ()
    is_skipped: bool = False
    replay: Replay | None = None


@dataclass(slots=True)
class SentRows:
    """Count and offsets of acknowledged records."""

    rows_count: int = 0
    _ranges: dict[tuple[str, int], WrittenRange] = field(default_factory=dict)

    def add(self, topic: str, partition: int, offset: int, count: int) -> None:
        """Add records with consecutive offsets."""
        last = offset + count - 1
        previous = self._ranges.get((topic, partition), WrittenRange(topic, partition, offset, last, 0))
        self._ranges[topic, partition] = WrittenRange(
            topic,
            partition,
            min(previous.first_offset, offset),
            max(previous.last_offset, last),
            previous.records_count + count,
        )

    @property
    def ranges(self) -> tuple[WrittenRange, ...]:
        return tuple(sorted(self._ranges.values()))


def send_rows(producer: Producer, batches: Iterable[pyarrow.RecordBatch], topic: str | None) -> SentRows:
    """Send all rows and wait for their acknowledgement; raise the first error."""
    pending: deque[Deliveries] = deque()
    written, sent_count = SentRows(), 0
    for batch in batches:
        if batch.num_rows:
            pending.append(producer.send_arrow(select_columns(batch, topic, sent_count), topic))
            sent_count += batch.num_rows
        while pending and pending[0].done():
            _count(pending.popleft(), written)
    producer.flush()
    for deliveries in pending:
        _count(deliveries, written)
    return written


def _count(deliveries: Deliveries, written: SentRows) -> None:
    written.rows_count += deliveries.result()
    for topic, partition, offset, count in deliveries.offset_ranges():
        written.add(topic, partition, offset, count)
