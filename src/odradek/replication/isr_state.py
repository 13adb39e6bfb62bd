"""The leader's view of a partition's replicas: follower log end offsets, the ISR, the high watermark.

The high watermark is the smallest log end offset of the replicas in the maximal ISR (the committed ISR plus
proposed members) and of caught-up replicas that may join soon. Without the latter a follower could chase a
high watermark that the leader alone moves, and never join. The high watermark only increases, and only
while the ISR is not below min.insync.replicas.

A follower leaves the ISR if it has not caught up with the leader's log for ``replica_lag_time_max_ms``; it
joins once it has reached the high watermark and the start offset of the leader's epoch.
``maybe_expand_isr`` and ``maybe_shrink_isr`` change nothing: the caller sends the proposal to the
controller (``prepare_isr_change``) and reports the result (``commit_isr`` or ``revert_isr_change``). While
a change is pending there is no other, and the larger of both ISRs counts, which is always safe.

Invariants: the leader is in the ISR and is not a remote replica; remote replicas are the other assigned
ones. A partition with one replica has none: its high watermark is its log end offset, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET
from odradek.replication.acks import effective_min_isr

Isr = tuple[int, ...]

NEVER_MS: Final = -(2**62)
"""Longer ago than any lag; the caller's clock may well begin near 0."""


class Replica:
    """One follower as its leader last saw it.

    ``last_caught_up_ms`` is the latest time at which it had the whole log of the leader, by Kafka's rule: a
    fetch at the leader's log end offset shows that it has everything now; a fetch at the end offset of its
    previous fetch shows that it had everything then.
    """

    __slots__ = (
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_ms = NEVER_MS
        self.last_caught_up_ms = NEVER_MS

    def update_fetch_state(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = max(self.last_fetch_leader_end_offset, leader_end_offset)
        self.last_fetch_ms = now_ms

    def reset(self) -> None:
        """Forget offsets: under a new leader nothing is known of a follower until it fetches."""
        self.log_end_offset = self.log_start_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms


class IsrState:
    """ISR and remote replicas of one partition, kept by its leader for as long as it leads."""

    __slots__ = (
        "_is_broker_alive",
        "_proposed_isr",
        "_replicas",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "maximal_isr",
        "replica_lag_time_max_ms",
    )

    def __init__(
        self, leader_id: int, replica_lag_time_max_ms: int, is_broker_alive: Callable[[int], bool]
    ) -> None:
        self.leader_id = leader_id
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        self._is_broker_alive = is_broker_alive
        self._replicas: dict[int, Replica] = {}
        self._proposed_isr: Isr | None = None
        self.isr: Isr = (leader_id,)
        self.maximal_isr: Isr = self.isr
        self.leader_epoch = NO_LEADER_EPOCH
        self.leader_epoch_start_offset = UNKNOWN_OFFSET

    @property
    def replica_count(self) -> int:
        return len(self._replicas) + 1

    @property
    def is_isr_change_pending(self) -> bool:
        return self._proposed_isr is not None

    def replica(self, broker_id: int) -> Replica | None:
        """Return the remote replica on a broker; None if the broker is not an assigned follower."""
        return self._replicas.get(broker_id)

    def update_assignment_and_isr(
        self, replicas: Isr, isr: Isr, leader_epoch: int, log_end_offset: int, now_ms: int
    ) -> None:
        """Apply the controller's decision. A new leader epoch starts at ``log_end_offset``."""
        known = self._replicas
        self._replicas = {
            broker_id: known.get(broker_id) or Replica()
            for broker_id in replicas
            if broker_id != self.leader_id
        }
        self.commit_isr(isr)
        if leader_epoch <= self.leader_epoch:
            return
        was_leader = self.leader_epoch != NO_LEADER_EPOCH
        for broker_id, replica in self._replicas.items():
            # A replica outside the ISR must neither hold back the high watermark nor join before it fetches.
            caught_up_ms = now_ms if broker_id in isr else NEVER_MS
            if was_leader:
                replica.last_fetch_leader_end_offset = log_end_offset
                replica.last_fetch_ms = caught_up_ms
            else:
                replica.reset()
            replica.last_caught_up_ms = caught_up_ms
        self.leader_epoch = leader_epoch
        self.leader_epoch_start_offset = log_end_offset

    def high_watermark(self, current: int, log_end_offset: int, min_isr: int, now_ms: int) -> int:
        """Return the high watermark now; ``current`` if it cannot move."""
        replicas = self._replicas
        if not replicas:
            return log_end_offset if log_end_offset > current else current
        if self.is_under_min_isr(min_isr):
            return current
        lowest = log_end_offset
        for broker_id, replica in replicas.items():
            if replica.log_end_offset < lowest and (
                broker_id in self.maximal_isr
                or self._may_join_isr_soon(broker_id, replica, log_end_offset, now_ms)
            ):
                lowest = replica.log_end_offset
        return lowest if lowest > current else current

    def _may_join_isr_soon(self, broker_id: int, replica: Replica, log_end_offset: int, now_ms: int) -> bool:
        return replica.is_caught_up(
            log_end_offset, now_ms, self.replica_lag_time_max_ms
        ) and self._is_broker_alive(broker_id)

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the smallest log start offset of all live replicas: DeleteRecords waits for it."""
        lowest = log_start_offset
        for broker_id, replica in self._replicas.items():
            if replica.log_start_offset < lowest and self._is_broker_alive(broker_id):
                lowest = replica.log_start_offset
        return lowest

    def is_under_min_isr(self, min_isr: int) -> bool:
        """Return whether the ISR has fewer members than acks=all requires."""
        return len(self.isr) < effective_min_isr(min_isr, self.replica_count)

    def maybe_expand_isr(self, broker_id: int, high_watermark: int) -> Isr | None:
        """Return the ISR with this follower if it may join. Call after each of its fetches."""
        if self._proposed_isr is not None or broker_id in self.isr:
            return None
        replica = self._replicas.get(broker_id)
        if replica is None or replica.log_end_offset < max(high_watermark, self.leader_epoch_start_offset):
            return None
        return (*self.isr, broker_id) if self._is_broker_alive(broker_id) else None

    def maybe_shrink_isr(self, log_end_offset: int, now_ms: int) -> Isr | None:
        """Return the ISR without followers that lag. Call at least every half ``replica_lag_time_max_ms``."""
        if self._proposed_isr is not None or len(self.isr) == 1:
            return None
        in_sync = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self.leader_id or self._is_in_sync(broker_id, log_end_offset, now_ms)
        )
        return None if len(in_sync) == len(self.isr) else in_sync

    def _is_in_sync(self, broker_id: int, log_end_offset: int, now_ms: int) -> bool:
        replica = self._replicas.get(broker_id)
        return replica is not None and replica.is_caught_up(
            log_end_offset, now_ms, self.replica_lag_time_max_ms
        )

    def prepare_isr_change(self, isr: Isr) -> None:
        """Note a proposal that is being sent. Until its result is known, its new members already count."""
        assert self._proposed_isr is None, "one ISR change at a time"
        self._proposed_isr = isr
        self.maximal_isr = self.isr + tuple(broker_id for broker_id in isr if broker_id not in self.isr)

    def commit_isr(self, isr: Isr) -> None:
        """Set the committed ISR, whatever was proposed. The high watermark may be able to move."""
        self._proposed_isr = None
        self.isr = self.maximal_isr = isr

    def revert_isr_change(self) -> None:
        """Drop a rejected proposal and return to the committed ISR."""
        self.commit_isr(self.isr)
