"""Records that iteration over a consumer takes in batches and yields one by one.

Taking a batch advances positions past all of it, but only yielded records count as consumed. So before any
other call reads positions or changes the assignment, ``return_unread`` puts the rest back in front of the
fetch buffer and moves positions back. The call guard does that (see ``call_guard``). The group, and with it
auto commit, is served only before the next batch is taken, when everything before has been yielded.

The batch size follows the speed of the loop: it doubles while batches are consumed quickly. A loop that is
slow on each record takes one at a time, so the group is served as often as with ``poll``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from odradek.client.consumer.fetch.buffer import AnyRecord, CompletedFetch, FetchBuffer
from odradek.client.consumer.positions.partition_state import FetchPosition, TopicPartitionState
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.interceptors import ConsumerInterceptors
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import RecordReader

FAST_BATCH_MS: Final = 50
"""A batch consumed within this time is followed by a larger one."""


class ReturnedRecords(CompletedFetch):
    """Records of one partition that were taken, and not consumed."""

    __slots__ = ("_epoch",)
    is_deserialized = True

    def __init__(
        self, partition: TopicPartition, records: list[AnyRecord], end_offset: int, current_leader_epoch: int
    ) -> None:
        empty_reader = RecordReader(b"", *partition, end_offset)
        super().__init__(partition, empty_reader, 0, end_offset, current_leader_epoch)
        self.put_back(records)
        self._epoch = records[0].leader_epoch

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @property
    def is_read(self) -> bool:
        return not self.has_returned_records

    def take(self, records_max: int) -> list[AnyRecord]:
        records = super().take(records_max)
        self._epoch = records[-1].leader_epoch
        return records


class IterationBuffer:
    """Batches for iteration; used in the thread that reads records (blocking: the application's)."""

    def __init__(
        self,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        interceptors: ConsumerInterceptors,
        records_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._interceptors = interceptors
        self._records_max = records_max
        self._now_ms = now_ms
        self._taken: list[AnyRecord] = []
        self._unread: Iterator[AnyRecord] = iter(self._taken)
        self._count_max = 1
        self._taken_ms = 0

    def take(self) -> Iterator[AnyRecord] | None:
        """Return the next batch; None if nothing is buffered. All of the previous batch was consumed."""
        is_fast = self._now_ms() - self._taken_ms < FAST_BATCH_MS
        self._count_max = min(2 * self._count_max, self._records_max) if is_fast else 1
        taken = self._buffer.take(self._count_max)
        self._taken, self._unread = taken, iter(taken)
        self._taken_ms = self._now_ms()
        if not taken:
            return None
        return self._intercepted(self._unread) if self._interceptors else self._unread

    def _intercepted(self, records: Iterator[AnyRecord]) -> Iterator[AnyRecord]:
        """Intercept records when yielded, so that a returned record is not intercepted twice."""
        for record in records:
            yield from self._interceptors.on_consume([record])

    def return_unread(self) -> None:
        """Return unconsumed records to the buffer; the iterator is empty then, and the loop takes again."""
        unread = list(self._unread)
        if not unread:
            return
        self._count_max, self._taken_ms = 1, self._now_ms()
        consumed = self._taken[: -len(unread)]
        self._taken = []
        for partition, records in reversed(_by_partition(unread).items()):
            state = self._subscription.assigned.get(partition)
            if state is not None:
                self._put_back(partition, state, records, _last_epoch(partition, consumed))

    def _put_back(
        self,
        partition: TopicPartition,
        state: TopicPartitionState,
        records: list[AnyRecord],
        consumed_epoch: int | None,
    ) -> None:
        current = state.position
        if current is None or not state.has_valid_position or current.offset <= records[-1].offset:
            return  # the position was changed meanwhile
        first = records[0]
        # The records before the position: a fetch planned in between sees where they end.
        self._buffer.put_back(ReturnedRecords(partition, records, current.offset, current.leader_epoch))
        epoch = first.leader_epoch if consumed_epoch is None else consumed_epoch
        state.advance(FetchPosition(first.offset, epoch, current.leader_id, current.leader_epoch))


def _by_partition(
    records: Iterable[AnyRecord],
) -> dict[TopicPartition, list[AnyRecord]]:
    grouped: dict[TopicPartition, list[AnyRecord]] = {}
    for record in records:
        grouped.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return grouped


def _last_epoch(partition: TopicPartition, consumed: list[AnyRecord]) -> int | None:
    """Return the leader epoch of the last consumed record; None if none was taken in the same batch."""
    for record in reversed(consumed):
        if (record.topic, record.partition) == partition:
            return record.leader_epoch
    return None
