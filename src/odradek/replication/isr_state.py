"""How far the followers of a partition have come, seen by its leader: the high watermark and ISR wishes.

The high watermark is the smallest log end among the replicas that count: those in sync, those asked to be
counted in sync, and those that have caught up and may join soon (else a follower could chase a watermark
that the leader alone moves, and never join). It moves only forward, and only while enough are in sync.

A follower leaves the ISR if it has not had all of the leader's log for ``lag_max_ms``; it joins once it has
reached the high watermark and the start of the leader's epoch. Wishes change nothing: the caller proposes one
to the store (``propose``), and says what became of it (``commit`` or ``withdraw``). While one is under way
there is no other, and the ISR that counts is the larger of both, which is always safe.

Invariants: the leader is in the ISR and is not a follower; followers are the other assigned replicas. A
partition with one replica has no followers: its watermark is its log's end, at no cost.
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
    """One follower as last seen. Kafka's rule for ``caught_up_ms``: the latest moment at which it had all.

    A fetch at the leader's end shows that it has all now; a fetch at what was the end when it fetched last
    shows that it had all then.
    """

    __slots__ = (
        "caught_up_ms",
        "end_offset",
        "last_fetch_ms",
        "leader_end_offset_at_last_fetch",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_offset_at_last_fetch = 0
        self.last_fetch_ms = NEVER_MS
        self.caught_up_ms = NEVER_MS

    def fetched(self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset_at_last_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_at_last_fetch = max(self.leader_end_offset_at_last_fetch, leader_end_offset)
        self.last_fetch_ms = now_ms

    def forget(self) -> None:
        """Under a new leader nothing is known of a follower until it fetches."""
        self.end_offset = self.log_start_offset = self.leader_end_offset_at_last_fetch = UNKNOWN_OFFSET
        self.last_fetch_ms = NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms


class IsrState:
    """The replicas of one partition, kept by its leader for as long as it leads."""

    __slots__ = (
        "_followers",
        "_is_alive",
        "_proposed",
        "epoch_start_offset",
        "isr",
        "lag_max_ms",
        "leader_epoch",
        "leader_id",
        "maximal_isr",
    )

    def __init__(self, leader_id: int, lag_max_ms: int, is_alive: Callable[[int], bool]) -> None:
        self.leader_id = leader_id
        self.lag_max_ms = lag_max_ms
        self._is_alive = is_alive
        self._followers: dict[int, Replica] = {}
        self._proposed: Isr | None = None
        self.isr: Isr = (leader_id,)
        self.maximal_isr: Isr = self.isr
        self.leader_epoch = NO_LEADER_EPOCH
        self.epoch_start_offset = UNKNOWN_OFFSET

    @property
    def replica_count(self) -> int:
        return len(self._followers) + 1

    @property
    def is_isr_change_under_way(self) -> bool:
        return self._proposed is not None

    def follower(self, broker_id: int) -> Replica | None:
        """The follower on a broker; None if that is not an assigned replica."""
        return self._followers.get(broker_id)

    def lead(self, replicas: Isr, isr: Isr, leader_epoch: int, end_offset: int, now_ms: int) -> None:
        """Take what the controller says. A new epoch begins at ``end_offset``, and followers with it anew."""
        old = self._followers
        self._followers = {
            broker_id: old.get(broker_id) or Replica()
            for broker_id in replicas
            if broker_id != self.leader_id
        }
        self.commit(isr)
        if leader_epoch <= self.leader_epoch:
            return
        led_before = self.leader_epoch != NO_LEADER_EPOCH
        for broker_id, follower in self._followers.items():
            # One outside the ISR must not hold the watermark back, nor come in before it fetches.
            since_ms = now_ms if broker_id in isr else NEVER_MS
            if led_before:
                follower.leader_end_offset_at_last_fetch = end_offset
                follower.last_fetch_ms = since_ms
            else:
                follower.forget()
            follower.caught_up_ms = since_ms
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = end_offset

    def high_watermark(self, current: int, end_offset: int, min_isr: int, now_ms: int) -> int:
        """The high watermark now; ``current`` if it cannot move."""
        followers = self._followers
        if not followers:
            return end_offset if end_offset > current else current
        if self.is_under_min_isr(min_isr):
            return current
        lowest = end_offset
        for broker_id, follower in followers.items():
            if follower.end_offset < lowest and (
                broker_id in self.maximal_isr or self._may_join_soon(broker_id, follower, end_offset, now_ms)
            ):
                lowest = follower.end_offset
        return lowest if lowest > current else current

    def _may_join_soon(self, broker_id: int, follower: Replica, end_offset: int, now_ms: int) -> bool:
        return follower.is_caught_up(end_offset, now_ms, self.lag_max_ms) and self._is_alive(broker_id)

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start of all live replicas: what DeleteRecords waits for."""
        lowest = log_start_offset
        for broker_id, follower in self._followers.items():
            if follower.log_start_offset < lowest and self._is_alive(broker_id):
                lowest = follower.log_start_offset
        return lowest

    def is_under_min_isr(self, min_isr: int) -> bool:
        """Whether fewer replicas are in sync than acks=all needs."""
        return len(self.isr) < effective_min_isr(min_isr, self.replica_count)

    def wish_to_expand(self, broker_id: int, high_watermark: int) -> Isr | None:
        """The ISR with this follower, if it has earned its place; ask after each of its fetches."""
        if self._proposed is not None or broker_id in self.isr:
            return None
        follower = self._followers.get(broker_id)
        if follower is None or follower.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return (*self.isr, broker_id) if self._is_alive(broker_id) else None

    def wish_to_shrink(self, end_offset: int, now_ms: int) -> Isr | None:
        """The ISR without the followers that lag; ask at least every half ``lag_max_ms``."""
        if self._proposed is not None or len(self.isr) == 1:
            return None
        keep = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self.leader_id or self._is_in_sync(broker_id, end_offset, now_ms)
        )
        return None if len(keep) == len(self.isr) else keep

    def _is_in_sync(self, broker_id: int, end_offset: int, now_ms: int) -> bool:
        follower = self._followers.get(broker_id)
        return follower is not None and follower.is_caught_up(end_offset, now_ms, self.lag_max_ms)

    def propose(self, isr: Isr) -> None:
        """A wish is on its way to the store; until it is settled, its new members count already."""
        assert self._proposed is None, "one change of the ISR at a time"
        self._proposed = isr
        self.maximal_isr = self.isr + tuple(broker_id for broker_id in isr if broker_id not in self.isr)

    def commit(self, isr: Isr) -> None:
        """This is the ISR now, whatever was proposed. The high watermark may be able to move."""
        self._proposed = None
        self.isr = self.maximal_isr = isr

    def withdraw(self) -> None:
        """The proposal was refused: all is as before it."""
        self.commit(self.isr)
