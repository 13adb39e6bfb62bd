"""A partition's leader: follower log end offsets, the ISR, the high watermark, the epoch's start offset.

The high watermark is the smallest log end offset of the replicas in the maximal ISR (the committed ISR plus
proposed members) and of caught-up replicas that may join soon. Without the latter a follower could chase a
high watermark that the leader alone moves, and never join. The high watermark only increases, and only
while the ISR is not below min.insync.replicas.

A follower leaves the ISR if it has not caught up with the leader's log for ``replica_lag_time_max_ms``; it
joins once it has reached the high watermark and the start offset of the leader's epoch.
``maybe_expand_isr`` and ``maybe_shrink_isr`` change nothing: the caller sends the proposal to the
controller (``propose_isr``) and reports the result (``complete_isr_change``). While a change is pending there
is no other, and the larger of both ISRs counts, which is always safe.

Invariants: the leader is in the ISR and is not a remote replica; remote replicas are the other assigned
ones. A partition with one replica has none: its high watermark is its log end offset, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from odradek.compiled_modules import mypyc_attr
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET
from odradek.replication.acks import effective_min_isr

Isr = tuple[int, ...]

NEVER_MS: Final = -(2**62)
"""Longer ago than any lag; the caller's clock may well begin near 0."""

RECOVERED: Final = 0
"""Leader recovery state (KIP-704): a leader elected uncleanly reports with its next ISR change that it has
recovered. Kafka does nothing else about RECOVERING (1)."""

# Results of AlterPartition that say for certain that the change was not made and never will be.
_REJECTED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# Results that leave it open, for example after a retry: only LeaderAndIsr tells the ISR.
_UNDECIDED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class IsrChange(NamedTuple):
    """A proposed ISR. ``partition_epoch`` is the version of the state that it replaces."""

    isr: Isr
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED


class IsrChangeResult(NamedTuple):
    """A partition in an AlterPartition response: an error, or the state after the change."""

    error: ErrorCode
    isr: Isr = ()
    leader_epoch: int = NO_LEADER_EPOCH
    partition_epoch: int = -1


class IsrChangeOutcome(Enum):
    """Effect of an AlterPartition result on the leader."""

    IGNORED = "ignored"
    """The leader has another state by now."""
    COMMITTED = "committed"
    REVERTED = "reverted"
    PENDING = "pending"
    """Unknown to the controller or outdated: stays proposed until LeaderAndIsr arrives."""
    RETRY = "retry"


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


@mypyc_attr(allow_interpreted_subclasses=True)
class Leader:
    """ISR and remote replicas of one partition, kept by its leader for as long as it leads."""

    __slots__ = (
        "_is_broker_alive",
        "_monotonic_ms",
        "_proposed",
        "_replicas",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "maximal_isr",
        "partition_epoch",
        "replica_lag_time_max_ms",
    )

    def __init__(
        self,
        leader_id: int,
        replica_lag_time_max_ms: int,
        is_broker_alive: Callable[[int], bool],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self.leader_id = leader_id
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        self._is_broker_alive = is_broker_alive
        self._monotonic_ms = monotonic_ms
        self._replicas: dict[int, Replica] = {}
        self._proposed: IsrChange | None = None
        self.isr: Isr = (leader_id,)
        self.maximal_isr: Isr = self.isr
        self.leader_epoch = NO_LEADER_EPOCH
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.partition_epoch = -1

    @property
    def replica_count(self) -> int:
        return len(self._replicas) + 1

    @property
    def has_followers(self) -> bool:
        return bool(self._replicas)

    @property
    def is_isr_change_pending(self) -> bool:
        return self._proposed is not None

    def replica(self, broker_id: int) -> Replica | None:
        """Return the remote replica on a broker; None if the broker is not an assigned follower."""
        return self._replicas.get(broker_id)

    def require_follower(self, broker_id: int, current_leader_epoch: int) -> None:
        """Reject a fetch of a broker that is not an assigned follower."""
        if broker_id not in self._replicas:
            raise BrokerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if current_leader_epoch == NO_LEADER_EPOCH
                else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"broker {broker_id} is not a follower",
            )

    def update_assignment_and_isr(
        self, replicas: Isr, isr: Isr, leader_epoch: int, partition_epoch: int, log_end_offset: int
    ) -> None:
        """Apply the controller's decision. A new leader epoch starts at ``log_end_offset``.

        Follower end offsets are kept only from the epoch right before. Kafka keeps them for any leader that
        stays leader, but another broker may have led in an epoch that this one missed, and a follower may
        have truncated its log then.
        """
        known = self._replicas
        self._replicas = {
            broker_id: known.get(broker_id) or Replica()
            for broker_id in replicas
            if broker_id != self.leader_id
        }
        self._commit_isr(isr, partition_epoch)
        if leader_epoch <= self.leader_epoch:
            return
        now_ms = self._monotonic_ms()
        stayed_leader = NO_LEADER_EPOCH != self.leader_epoch == leader_epoch - 1
        for broker_id, replica in self._replicas.items():
            # A replica outside the ISR must neither hold back the high watermark nor join before it fetches.
            caught_up_ms = now_ms if broker_id in isr else NEVER_MS
            if stayed_leader:
                replica.last_fetch_leader_end_offset = log_end_offset
                replica.last_fetch_ms = caught_up_ms
            else:
                replica.reset()
            replica.last_caught_up_ms = caught_up_ms
        self.leader_epoch = leader_epoch
        self.leader_epoch_start_offset = log_end_offset

    # Offsets.

    def record_fetch(
        self, replica: Replica, fetch_offset: int, log_start_offset: int, log_end_offset: int
    ) -> None:
        """Record a follower's successful fetch; ``log_end_offset`` is the leader's at the read."""
        replica.update_fetch_state(fetch_offset, log_start_offset, log_end_offset, self._monotonic_ms())

    def high_watermark(self, current: int, log_end_offset: int, min_isr: int) -> int:
        """Return the high watermark now; ``current`` if it cannot move."""
        replicas = self._replicas
        if not replicas:
            return log_end_offset if log_end_offset > current else current
        if self.is_under_min_isr(min_isr):
            return current
        lowest = log_end_offset
        for broker_id, replica in replicas.items():
            if replica.log_end_offset < lowest and (
                broker_id in self.maximal_isr or self._may_join_isr_soon(broker_id, replica, log_end_offset)
            ):
                lowest = replica.log_end_offset
        return lowest if lowest > current else current

    def _may_join_isr_soon(self, broker_id: int, replica: Replica, log_end_offset: int) -> bool:
        return self._is_caught_up(replica, log_end_offset) and self._is_broker_alive(broker_id)

    def _is_caught_up(self, replica: Replica, log_end_offset: int) -> bool:
        return replica.is_caught_up(log_end_offset, self._monotonic_ms(), self.replica_lag_time_max_ms)

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the smallest log start offset of all live replicas: DeleteRecords waits for it."""
        lowest = log_start_offset
        for broker_id, replica in self._replicas.items():
            if replica.log_start_offset < lowest and self._is_broker_alive(broker_id):
                lowest = replica.log_start_offset
        return lowest

    def check_offsets_available(self, high_watermark: int) -> None:
        """Raise OFFSET_NOT_AVAILABLE until the high watermark has reached the start of this leader's epoch.

        Until then the end offset could be smaller than one that an earlier leader has returned.
        """
        if self.leader_epoch_start_offset > high_watermark:
            raise BrokerError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"high watermark must be >= {self.leader_epoch_start_offset}, got {high_watermark}",
            )

    def readable_replicas(self, offset: int) -> list[tuple[int, Replica]]:
        """Return the followers in the ISR whose logs contain the offset, or end at it (KIP-392)."""
        return [
            (broker_id, replica)
            for broker_id, replica in self._replicas.items()
            if broker_id in self.isr and replica.log_start_offset <= offset <= replica.log_end_offset
        ]

    # The ISR.

    def is_under_min_isr(self, min_isr: int) -> bool:
        """Return whether the ISR has fewer members than acks=all requires."""
        return len(self.isr) < effective_min_isr(min_isr, self.replica_count)

    def maybe_expand_isr(self, broker_id: int, high_watermark: int) -> Isr | None:
        """Return the ISR with this follower if it may join. Call after each of its fetches."""
        if self._proposed is not None or broker_id in self.isr:
            return None
        replica = self._replicas.get(broker_id)
        if replica is None or replica.log_end_offset < max(high_watermark, self.leader_epoch_start_offset):
            return None
        return (*self.isr, broker_id) if self._is_broker_alive(broker_id) else None

    def maybe_shrink_isr(self, log_end_offset: int) -> Isr | None:
        """Return the ISR without followers that lag. Call at least every half ``replica_lag_time_max_ms``."""
        if self._proposed is not None or len(self.isr) == 1:
            return None
        in_sync = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self.leader_id or self._is_in_sync(broker_id, log_end_offset)
        )
        return None if len(in_sync) == len(self.isr) else in_sync

    def _is_in_sync(self, broker_id: int, log_end_offset: int) -> bool:
        replica = self._replicas.get(broker_id)
        return replica is not None and self._is_caught_up(replica, log_end_offset)

    def propose_isr(self, isr: Isr) -> IsrChange:
        """Note a proposal that is being sent. Until its result is known, its new members already count."""
        assert self._proposed is None, "one ISR change at a time"
        self._proposed = IsrChange(isr, self.leader_epoch, self.partition_epoch)
        self.maximal_isr = self.isr + tuple(broker_id for broker_id in isr if broker_id not in self.isr)
        return self._proposed

    def complete_isr_change(self, change: IsrChange, result: IsrChangeResult) -> IsrChangeOutcome:
        """Apply the controller's response to a proposal.

        A proposal is withdrawn only if the controller has certainly not applied it: a follower that the
        controller counts and the leader does not could be elected without acknowledged records.
        """
        if self._proposed is not change:
            return IsrChangeOutcome.IGNORED
        if result.error in _REJECTED:
            self._commit_isr(self.isr, self.partition_epoch)
            return IsrChangeOutcome.REVERTED
        if result.error in _UNDECIDED:
            return IsrChangeOutcome.PENDING
        if result.error:
            return IsrChangeOutcome.RETRY
        if result.leader_epoch != self.leader_epoch or result.partition_epoch < self.partition_epoch:
            return IsrChangeOutcome.PENDING
        self._commit_isr(result.isr, result.partition_epoch)
        return IsrChangeOutcome.COMMITTED

    def _commit_isr(self, isr: Isr, partition_epoch: int) -> None:
        """Set the committed ISR, whatever was proposed. The high watermark may be able to move."""
        self._proposed = None
        self.isr = self.maximal_isr = isr
        self.partition_epoch = partition_epoch
