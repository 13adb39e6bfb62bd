"""Decisions of brokers and the controller, one method each. A planted bug changes one of them.

High watermark, ISR entry and removal, leader epoch lookups, acks and offline election are the project's own
code (``real_rules.py``). The others are written here, because the broker's are tied to files and requests:
fencing by epochs, truncation, the life of a pending ISR change, the controller's checks.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model import real_rules
from tests.model.real_rules import LeaderType
from tests.model.state import (
    MEMBERS,
    NONE,
    Alteration,
    Leadership,
    Message,
    Outcome,
    Replica,
    Scope,
    Stored,
)

from odradek.replication.leader import Leader


class Rules:
    """The rules as they should be."""

    leader_type: LeaderType = Leader
    ignores_stale_messages = True
    """True if messages of an old epoch have no effect, and need not be part of a state."""

    # A broker that receives LeaderAndIsr.

    restart_hides_crash = False
    """True if a restarted broker accepts requests that were sent to it before its crash."""

    def accepts_leader_and_isr(self, replica: Replica, request: Stored) -> bool:
        return request.leader_epoch > replica.epoch

    def must_check_truncation(self, replica: Replica, request: Stored) -> bool:
        """Return whether a follower must compare its log with the leader's before it fetches."""
        return True

    def leadership_of_follower(self, replica: Replica) -> Leadership | None:
        """Return what a leader remembers of its followers when it becomes one itself."""
        return None

    # A leader that receives a fetch.

    counts_diverging_fetch = False
    acknowledges_at_append = False

    def accepts_fetch(self, leader_epoch: int, request_epoch: int) -> bool:
        return request_epoch == leader_epoch

    def diverging_epoch(self, leader: Replica, request: Message) -> tuple[int, int] | None:
        """Return epoch and end offset where the follower's log diverges, or None."""
        if request.epoch == NONE:
            return None
        epoch, end_offset = real_rules.end_offset_for(leader.log, leader.empty_epoch, request.epoch)
        if epoch < request.epoch or end_offset < request.offset:
            return epoch, end_offset
        return None

    # A follower that receives a response.

    def accepts_response(self, replica: Replica, message: Message) -> bool:
        return (
            message.leader_epoch == replica.epoch
            and message.leader == replica.leader
            and message.offset == len(replica.log)
        )

    def truncation_offset(self, replica: Replica, epoch: int, end_offset: int) -> tuple[int, bool]:
        """Return the offset to truncate to, and whether the logs agree then."""
        own_epoch, own_end = real_rules.end_offset_for(replica.log, replica.empty_epoch, epoch)
        if own_epoch == NONE:
            return min(end_offset, len(replica.log)), True
        if own_epoch != epoch:
            return min(own_end, len(replica.log)), False
        return min(own_end, end_offset, len(replica.log)), True

    def follower_high_watermark(self, current: int, leader_high_watermark: int, end_offset: int) -> int:
        return max(current, min(leader_high_watermark, end_offset))

    # A leader with a pending ISR change.

    withdraws_on_timeout = False

    def accepts_alteration(self, replica: Replica, alteration: Alteration) -> bool:
        """Return whether the response is that of the pending change."""
        leadership = replica.leadership
        return (
            leadership is not None
            and leadership.proposed == alteration.isr
            and replica.epoch == alteration.leader_epoch
            and leadership.partition_epoch == alteration.partition_epoch
        )

    def withdraws(self, outcome: Outcome) -> bool:
        """Return whether the change was certainly not applied, and never will be."""
        return outcome is Outcome.INELIGIBLE_REPLICA

    # The controller.

    def alteration_outcome(self, stored: Stored, request: Alteration, dead: int) -> Outcome:
        if request.leader_epoch < stored.leader_epoch:
            return Outcome.FENCED_LEADER_EPOCH
        if request.isr == stored.isr:
            return Outcome.SUCCESS
        if request.partition_epoch < stored.partition_epoch:
            return Outcome.INVALID_UPDATE_VERSION
        if request.isr & dead:
            return Outcome.INELIGIBLE_REPLICA
        return Outcome.SUCCESS

    def candidates(self, isr: int, live: int) -> int:
        """Return the brokers that may become leader while the current leader is alive."""
        return isr & live

    def epoch_after_election(self, leader_epoch: int) -> int:
        return leader_epoch + 1

    def needs_new_epoch(self, stored: Stored, broker: int, is_bounce: bool) -> bool:
        """Return whether the failure of a broker changes the stored state."""
        return broker == stored.leader or broker in MEMBERS[stored.isr]


class Model(NamedTuple):
    rules: Rules
    scope: Scope
