"""The rows of one task on their way: sent batch by batch, each one's fate waited for, places counted.

Invariant: what ``send_rows`` gives counts only records that were acknowledged; if one was not, it raises.
Memory is bounded by the producer's ``buffer.memory``: sending waits for room, and what has been acknowledged
is counted and let go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from odradek.spark.sink.rows import sendable

if TYPE_CHECKING:
    import pyarrow

    from odradek.client.blocking.producer import Producer
    from odradek.client.producer.deliveries import Deliveries


class WrittenRange(NamedTuple):
    """What a task wrote to a partition: first and last offset; records of others may lie between."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records_count: int


class OpenTransaction(NamedTuple):
    """A transaction that a task leaves to the driver to end."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Replay(NamedTuple):
    """A task's part in a batch that another attempt has written in part: for the driver to check and end."""

    query: str
    attempt: str
    transaction: OpenTransaction | None = None
    problem: str | None = None
    """Why the rows are not those that were written before."""


@dataclass(frozen=True)
class TaskCommitMessage(WriterCommitMessage):
    """What one task wrote. ``is_skipped``: an earlier run of this task had written its rows already."""

    rows_count: int
    ranges: tuple[WrittenRange, ...] = ()
    is_skipped: bool = False
    replay: Replay | None = None


@dataclass(slots=True)
class Written:
    """What has been acknowledged so far."""

    rows_count: int = 0
    _ranges: dict[tuple[str, int], WrittenRange] = field(default_factory=dict)

    def add(self, topic: str, partition: int, offset: int, count: int) -> None:
        """Note records that lie one after another."""
        last = offset + count - 1
        known = self._ranges.get((topic, partition), WrittenRange(topic, partition, offset, last, 0))
        self._ranges[topic, partition] = WrittenRange(
            topic,
            partition,
            min(known.first_offset, offset),
            max(known.last_offset, last),
            known.records_count + count,
        )

    @property
    def ranges(self) -> tuple[WrittenRange, ...]:
        return tuple(sorted(self._ranges.values()))


def send_rows(producer: Producer, batches: Iterable[pyarrow.RecordBatch], topic: str | None) -> Written:
    """Send all rows and wait for them; raises the first error that one of them met."""
    waiting: deque[Deliveries] = deque()
    written, sent_count = Written(), 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(producer.send_arrow(sendable(batch, topic, sent_count), topic))
            sent_count += batch.num_rows
        while waiting and waiting[0].done():
            _count(waiting.popleft(), written)
    producer.flush()
    for deliveries in waiting:
        _count(deliveries, written)
    return written


def _count(deliveries: Deliveries, written: Written) -> None:
    written.rows_count += deliveries.result()
    for topic, partition, offset, count in deliveries.placed():
        written.add(topic, partition, offset, count)
