"""The committed offsets of one group: those that count, those of open transactions, and those under way.

``apply`` and ``end_transaction`` alone change the first two, in the order of the log. What counts for a
partition is the last of its records in the log, leaving out those of transactions that are open or aborted:
a transaction that ends late does not bring back an offset that was committed anew, or deleted, after it was
written. Compaction keeps that same record, so a load gives the same, before it and after.

What is under way (appended, and not yet known to be committed) is only counted, since it is applied by
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Final, NamedTuple

from odradek.coordinators.groups.commands import FetchedOffset, OffsetAndMetadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID, TopicPartition

_UNKNOWN: Final = FetchedOffset(ErrorCode.NONE)
_UNSTABLE: Final = FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT)


class Placed(NamedTuple):
    """An offset, and its place among all that was applied to the group."""

    place: int
    offset: OffsetAndMetadata


class CommittedOffsets:
    __slots__ = ("_committed", "_in_transactions", "_next_place", "_under_way")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, Placed] = {}
        self._in_transactions: dict[int, dict[TopicPartition, Placed]] = {}
        """By producer id."""
        self._under_way: Counter[TopicPartition] = Counter()
        self._next_place = 0

    # What the log says.

    def apply(
        self, partition: TopicPartition, offset: OffsetAndMetadata | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Take over a record; without an offset it says that there is none any more."""
        if offset is None:
            self._remove(partition, producer_id)
            return
        placed = Placed(self._next_place, offset)
        self._next_place += 1
        if producer_id == NO_PRODUCER_ID:
            self._committed[partition] = placed
        else:
            self._in_transactions.setdefault(producer_id, {})[partition] = placed

    def _remove(self, partition: TopicPartition, producer_id: int) -> None:
        if producer_id == NO_PRODUCER_ID:
            self._committed.pop(partition, None)
        for producer in [producer_id] if producer_id != NO_PRODUCER_ID else list(self._in_transactions):
            written = self._in_transactions.get(producer, {})
            written.pop(partition, None)
            if not written:
                self._in_transactions.pop(producer, None)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        written = self._in_transactions.pop(producer_id, {})
        if not commits:
            return
        for partition, placed in written.items():
            known = self._committed.get(partition)
            if known is None or known.place < placed.place:
                self._committed[partition] = placed

    # What is under way.

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """A commit of these was asked for."""
        self._under_way.update(partitions)

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """It is applied, or was refused."""
        for partition in partitions:
            self._under_way[partition] -= 1
            if not self._under_way[partition]:
                del self._under_way[partition]

    # Questions.

    def __iter__(self) -> Iterator[tuple[TopicPartition, OffsetAndMetadata]]:
        """Those that count."""
        return ((partition, placed.offset) for partition, placed in self._committed.items())

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be lost with this."""
        return not (self._committed or self._in_transactions or self._under_way)

    def is_unsettled(self, partition: TopicPartition) -> bool:
        """Whether a commit of it is on its way, or waits for the end of its transaction."""
        return partition in self._under_way or any(
            partition in written for written in self._in_transactions.values()
        )

    def known(self) -> set[TopicPartition]:
        """All that the log has, or will have, an offset of."""
        return {*self._committed, *self._under_way}.union(*self._in_transactions.values())

    def known_among(self, partitions: Set[TopicPartition]) -> set[TopicPartition]:
        """The same, of these alone. Takes as long as the fewer of both are many."""
        found = (self._committed.keys() & partitions) | (self._under_way.keys() & partitions)
        return found.union(*(written.keys() & partitions for written in self._in_transactions.values()))

    def fetch(
        self, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> dict[TopicPartition, FetchedOffset]:
        """Offsets of these partitions, or of all that have one."""
        wanted = self._committed if partitions is None else partitions
        return {partition: self._fetch(partition, require_stable) for partition in wanted}

    def _fetch(self, partition: TopicPartition, require_stable: bool) -> FetchedOffset:
        if require_stable and self.is_unsettled(partition):
            return _UNSTABLE
        placed = self._committed.get(partition)
        if placed is None:
            return _UNKNOWN
        offset = placed.offset
        return FetchedOffset(ErrorCode.NONE, offset.offset, offset.leader_epoch, offset.metadata)

    def __repr__(self) -> str:
        return f"CommittedOffsets({self._committed}, {self._in_transactions}, {dict(self._under_way)})"
