"""Records that a loop over a consumer has taken together and is given one by one.

Positions have passed a whole take, but only what the loop was given counts as read. So, before any other call
looks at positions or changes what is read, the rest is given back: ``settle`` puts it in front of what waits
to be read, and positions before it. The guard through which all calls go does that (see ``exclusive``). What
a poll does for the group, commits among it, comes only before the next take: all has been given out by then.

A take is as long as the loop is quick: it doubles while one is given out within a short time. A loop that
works long on each record takes one at a time, and the group hears of it as often as it would of polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from odradek.client.consumer.fetch.buffer import AnyRecord, CompletedFetch, FetchBuffer
from odradek.client.consumer.positions.partition_state import FetchPosition, TopicPartitionState
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.interceptors import ConsumerInterceptors
from odradek.model.ids import TopicPartition
from odradek.records.codec import RecordReader

QUICK_MS: Final = 50
"""A take that is given out within this time is followed by a longer one."""


class ReturnedRecords(CompletedFetch):
    """Records of one partition that were taken, and not given out."""

    __slots__ = ("_epoch",)
    is_deserialized = True

    def __init__(self, partition: TopicPartition, records: list[AnyRecord], end_offset: int) -> None:
        nothing_more = RecordReader(b"", *partition, end_offset)
        super().__init__(partition, nothing_more, 0, end_offset)
        self.give_back(records)
        self._epoch = records[0].leader_epoch

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @property
    def is_read(self) -> bool:
        return not self.has_given_back

    def take(self, records_max: int) -> list[AnyRecord]:
        records = super().take(records_max)
        self._epoch = records[-1].leader_epoch
        return records


class IterationBuffer:
    """Used where records are read: in the application's own thread, if it has one."""

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
        self._rest: Iterator[AnyRecord] = iter(self._taken)
        self._count_max = 1
        self._taken_ms = 0

    def take(self) -> Iterator[AnyRecord] | None:
        """The next records to give out; None if there are none at hand. All before were given out."""
        is_quick = self._now_ms() - self._taken_ms < QUICK_MS
        self._count_max = min(2 * self._count_max, self._records_max) if is_quick else 1
        taken = self._buffer.take(self._count_max)
        self._taken, self._rest = taken, iter(taken)
        self._taken_ms = self._now_ms()
        if not taken:
            return None
        return self._intercepted(self._rest) if self._interceptors else self._rest

    def _intercepted(self, records: Iterator[AnyRecord]) -> Iterator[AnyRecord]:
        """One by one: what an interceptor makes of a record that is given back would be made twice."""
        for record in records:
            yield from self._interceptors.on_consume([record])

    def return_unread(self) -> None:
        """Give back what was not given out: the loop finds nothing more of it, and takes anew."""
        rest = list(self._rest)
        if not rest:
            return
        self._count_max, self._taken_ms = 1, self._now_ms()
        given = self._taken[: -len(rest)]
        self._taken = []
        for partition, records in reversed(_by_partition(rest).items()):
            each = self._subscription.assigned.get(partition)
            if each is not None:
                self._give_back(partition, each, records, _last_epoch(partition, given))

    def _give_back(
        self,
        partition: TopicPartition,
        each: TopicPartitionState,
        records: list[AnyRecord],
        given_epoch: int | None,
    ) -> None:
        now = each.position
        if now is None or not each.has_valid_position or now.offset <= records[-1].offset:
            return  # it is read elsewhere by now
        first = records[0]
        # The records before the position: whoever plans a fetch now sees where they end.
        self._buffer.put_back(ReturnedRecords(partition, records, now.offset))
        epoch = first.leader_epoch if given_epoch is None else given_epoch
        each.advance(FetchPosition(first.offset, epoch, now.leader_id, now.leader_epoch))


def _by_partition(
    records: Iterable[AnyRecord],
) -> dict[TopicPartition, list[AnyRecord]]:
    found: dict[TopicPartition, list[AnyRecord]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found


def _last_epoch(partition: TopicPartition, given: list[AnyRecord]) -> int | None:
    """That of the record before those which are given back, if it was taken together with them."""
    for record in reversed(given):
        if (record.topic, record.partition) == partition:
            return record.leader_epoch
    return None
