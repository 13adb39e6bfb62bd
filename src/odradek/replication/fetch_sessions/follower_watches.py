"""The partitions of a follower's session that its next fetch must read.

A follower is settled on a partition if it has the whole log, knows the current offsets, and is in the ISR
with no ISR change pending. Nothing is read for it until the partition changes. Each partition of the session
is watched, like a delayed request, but for as long as the session lives. So the cost of a fetch, and of its
wait, depends on the partitions that changed and not on the size of the session.

Each fetch of the session counts as a fetch of all settled partitions. Its time is written into the leaders'
states when it is needed: before the ISR is checked, before a replica is chosen for a consumer, and when the
partition changes.

A pending ISR change matters: a follower that is being removed from the ISR is still in the committed one. If
it were settled, no later fetch would propose it for the ISR again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Protocol

from odradek.log.log import Log
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, SessionKey
from odradek.replication.leader import Leader
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory


class Session(Protocol):
    """The fetch session of a follower."""

    last_used_ms: int

    @property
    def partitions(self) -> Mapping[SessionKey, FetchPartition]: ...


class WatchedPartition(Hashable, Protocol):
    """A partition, as far as its leader knows whether a follower has everything."""

    @property
    def log(self) -> Log: ...

    @property
    def leader_state(self) -> Leader | None: ...

    @property
    def leader_epoch(self) -> int: ...

    def is_safely_in_isr(self, broker_id: int) -> bool: ...


class PartitionWatch(DelayedOperation):
    """Watches one partition of a session. It never completes."""

    __slots__ = ("broker_id", "is_settled", "key", "leader_epoch", "partition", "watches")

    def __init__(self, watches: FollowerWatches, key: SessionKey, partition: WatchedPartition) -> None:
        super().__init__()
        self.watches = watches
        self.key = key
        self.partition = partition
        self.broker_id = -1
        self.leader_epoch = -1
        self.is_settled = False

    def try_complete(self) -> bool:
        self.watches.on_changed(self)
        return False

    def force_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        raise AssertionError("a watch does not complete")

    def record_fetch(self, fetched_ms: int) -> None:
        """Write the time of the last fetch into the state of the leader in whose epoch it was settled."""
        leader = self.partition.leader_state
        replica = None if leader is None else leader.replica(self.broker_id)
        if leader is not None and replica is not None and leader.leader_epoch == self.leader_epoch:
            replica.last_fetch_ms = max(replica.last_fetch_ms, fetched_ms)
            replica.last_caught_up_ms = max(replica.last_caught_up_ms, fetched_ms)


class FollowerWatches:
    """Also the key under which a fetch of the session waits."""

    __slots__ = ("_by_key", "_changed", "_pending", "_purgatory", "_session")

    def __init__(self, session: Session, purgatory: DelayedOperationPurgatory) -> None:
        self._session = session
        self._purgatory = purgatory
        self._by_key: dict[SessionKey, PartitionWatch] = {}
        self._pending: dict[SessionKey, None] = dict.fromkeys(session.partitions)
        self._changed: dict[SessionKey, None] = {}

    # Reads.

    def take_pending(self) -> list[FetchPartition]:
        """Return the partitions that a new fetch must read. Each is settled or kept after that."""
        taken, self._pending, self._changed = self._pending, {}, {}
        return self._entries(taken)

    def take_changed(self) -> list[FetchPartition]:
        """Return the partitions that have changed since the waiting fetch has looked at them."""
        taken, self._changed = self._changed, {}
        return self._entries(taken)

    def _entries(self, keys: Iterable[SessionKey]) -> list[FetchPartition]:
        partitions = self._session.partitions
        return [partitions[key] for key in keys if key in partitions]

    def keep(self, key: SessionKey) -> None:
        """Read a partition for the next fetch again."""
        self._pending[key] = None

    def keep_last(self, key: SessionKey) -> None:
        """The same, after the others: it had records in this response."""
        self._pending.pop(key, None)
        self._pending[key] = None

    def settle(self, entry: FetchPartition, partition: WatchedPartition, broker_id: int) -> None:
        """Watch a partition after a read for this follower, and keep it unless the follower is settled."""
        watch = self._by_key.get(entry.key)
        if watch is None or watch.partition is not partition:
            self.forget(entry.key)
            watch = self._by_key[entry.key] = PartitionWatch(self, entry.key, partition)
            self._purgatory.watch(watch, partition)
        log = partition.log
        watch.is_settled = (
            entry.fetch_offset == log.log_end_offset
            and entry.high_watermark == log.high_watermark
            and entry.leader_log_start_offset == log.log_start_offset
            and entry.current_leader_epoch == partition.leader_epoch
            and partition.is_safely_in_isr(broker_id)
        )
        watch.broker_id, watch.leader_epoch = broker_id, partition.leader_epoch
        if not watch.is_settled:
            self._pending[entry.key] = None

    # Changes.

    def on_changed(self, watch: PartitionWatch) -> None:
        self.record_fetch(watch)
        watch.is_settled = False
        self._pending[watch.key] = None
        self._changed[watch.key] = None
        self._purgatory.check_and_complete(self)

    def record_fetches(self) -> None:
        """Write the time of the last fetch into the states of the leaders where this follower is settled."""
        for watch in self._by_key.values():
            self.record_fetch(watch)

    def record_fetch(self, watch: PartitionWatch) -> None:
        if watch.is_settled:
            watch.record_fetch(self._session.last_used_ms)

    def forget(self, key: SessionKey) -> None:
        """Stop watching a partition that has left the session."""
        self._pending.pop(key, None)
        self._changed.pop(key, None)
        watch = self._by_key.pop(key, None)
        if watch is not None:
            self._purgatory.unwatch(watch, watch.partition)

    def close(self) -> None:
        self.record_fetches()
        for watch in self._by_key.values():
            self._purgatory.unwatch(watch, watch.partition)
        self._by_key.clear()


def record_settled_fetches(purgatory: DelayedOperationPurgatory, partition: Hashable) -> None:
    """Write the times of the last fetches of all followers that are settled on a partition."""
    for operation in purgatory.watching(partition):
        if isinstance(operation, PartitionWatch):
            operation.watches.record_fetch(operation)
