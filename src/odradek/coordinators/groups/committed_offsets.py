"""Offsets of one group: committed ones, those of open transactions, and those of pending appends.

``replay`` and ``end_transaction`` alone change the first two, in log order. The committed offset of a
partition is its last record in the log, not counting open and aborted transactions: a transaction that ends
late does not restore an offset that was committed again or deleted after it was written. Compaction keeps the
same record, so a load gives the same result before and after it.

Offsets of pending appends are only counted, because they are replayed once they are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final

from odradek.coordinators.groups.commands import FetchedOffset, OffsetAndMetadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_ID, TopicPartition

_NO_OFFSET: Final = FetchedOffset(ErrorCode.NONE)
_UNSTABLE: Final = FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT)


class SequencedOffset:
    """An offset, and its sequence number among all offsets replayed to the group."""

    __slots__ = ("offset", "sequence")

    def __init__(self, sequence: int, offset: OffsetAndMetadata) -> None:
        self.sequence = sequence
        self.offset = offset

    def __repr__(self) -> str:
        return f"SequencedOffset({self.sequence}, {self.offset})"


class CommittedOffsets:
    __slots__ = ("_committed", "_in_transactions", "_next_sequence", "_pending")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, SequencedOffset] = {}
        self._in_transactions: dict[int, dict[TopicPartition, SequencedOffset]] = {}
        """By producer id."""
        self._pending: dict[TopicPartition, int] = {}
        self._next_sequence = 0

    # Replay.

    def replay(
        self, partition: TopicPartition, offset: OffsetAndMetadata | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Apply a committed record; None is a tombstone."""
        if offset is None:
            self._remove(partition, producer_id)
            return
        sequenced = SequencedOffset(self._next_sequence, offset)
        self._next_sequence += 1
        if producer_id == NO_PRODUCER_ID:
            self._committed[partition] = sequenced
        else:
            self._in_transactions.setdefault(producer_id, {})[partition] = sequenced

    def _remove(self, partition: TopicPartition, producer_id: int) -> None:
        if producer_id == NO_PRODUCER_ID:
            self._committed.pop(partition, None)
        for producer in [producer_id] if producer_id != NO_PRODUCER_ID else list(self._in_transactions):
            offsets = self._in_transactions.get(producer, {})
            offsets.pop(partition, None)
            if not offsets:
                self._in_transactions.pop(producer, None)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        offsets = self._in_transactions.pop(producer_id, {})
        if not commits:
            return
        for partition, sequenced in offsets.items():
            current = self._committed.get(partition)
            if current is None or current.sequence < sequenced.sequence:
                self._committed[partition] = sequenced

    # Pending appends.

    def add_pending(self, partitions: Iterable[TopicPartition]) -> None:
        pending = self._pending
        for partition in partitions:
            pending[partition] = pending.get(partition, 0) + 1

    def remove_pending(self, partitions: Iterable[TopicPartition]) -> None:
        pending = self._pending
        for partition in partitions:
            count = pending.pop(partition) - 1
            if count:
                pending[partition] = count

    # Queries.

    def __iter__(self) -> Iterator[tuple[TopicPartition, OffsetAndMetadata]]:
        """Iterate over the committed offsets."""
        return ((partition, sequenced.offset) for partition, sequenced in self._committed.items())

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def is_empty(self) -> bool:
        """True if there are neither committed offsets, nor open transactions, nor pending appends."""
        return not (self._committed or self._in_transactions or self._pending)

    def has_pending_commit(self, partition: TopicPartition) -> bool:
        """Return whether an append or an open transaction may change the partition's offset."""
        return partition in self._pending or any(
            partition in offsets for offsets in self._in_transactions.values()
        )

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions with a committed offset, an open transaction or a pending append."""
        return {*self._committed, *self._pending}.union(*self._in_transactions.values())

    def partitions_among(self, partitions: Set[TopicPartition]) -> set[TopicPartition]:
        """Return ``partitions()`` restricted to these, in time proportional to the smaller set."""
        matching = (self._committed.keys() & partitions) | (self._pending.keys() & partitions)
        return matching.union(*(offsets.keys() & partitions for offsets in self._in_transactions.values()))

    def fetch(
        self, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> dict[TopicPartition, FetchedOffset]:
        """Return the offsets of these partitions, or of all that have one."""
        requested = self._committed if partitions is None else partitions
        return {partition: self._fetch(partition, require_stable) for partition in requested}

    def _fetch(self, partition: TopicPartition, require_stable: bool) -> FetchedOffset:
        if require_stable and self.has_pending_commit(partition):
            return _UNSTABLE
        sequenced = self._committed.get(partition)
        if sequenced is None:
            return _NO_OFFSET
        offset = sequenced.offset
        return FetchedOffset(ErrorCode.NONE, offset.offset, offset.leader_epoch, offset.metadata)

    def __repr__(self) -> str:
        return f"CommittedOffsets({self._committed}, {self._in_transactions}, {self._pending})"
