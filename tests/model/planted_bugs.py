"""Known mistakes, each a change of one rule, and the scope in which a search finds it."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.model.rules import Rules
from tests.model.state import (
    Alteration,
    Leadership,
    Message,
    Outcome,
    Replica,
    Scope,
    Stored,
)

from odradek.model.ids import NO_LEADER_EPOCH
from odradek.replication.leader import Isr, IsrChange, Leader

# Followers.


class TruncateToHighWatermark(Rules):
    def truncation_offset(self, replica: Replica, epoch: int, end_offset: int) -> tuple[int, bool]:
        return replica.high_watermark, True


class TruncateWithoutOwnEpochs(Rules):
    def truncation_offset(self, replica: Replica, epoch: int, end_offset: int) -> tuple[int, bool]:
        return min(end_offset, len(replica.log)), True


class NoCheckUnderSameLeader(Rules):
    def must_check_truncation(self, replica: Replica, request: Stored) -> bool:
        return request.leader != replica.leader


class HighWatermarkBeyondEnd(Rules):
    def follower_high_watermark(self, current: int, leader_high_watermark: int, end_offset: int) -> int:
        return max(current, leader_high_watermark)


class ResponseOfAnyEpoch(Rules):
    ignores_stale_messages = False

    def accepts_response(self, replica: Replica, message: Message) -> bool:
        return message.leader == replica.leader and message.offset == len(replica.log)


# Leaders.


class NoDivergenceCheck(Rules):
    def diverging_epoch(self, leader: Replica, request: Message) -> tuple[int, int] | None:
        return None


class FetchOfAnyEpoch(Rules):
    ignores_stale_messages = False

    def accepts_fetch(self, leader_epoch: int, request_epoch: int) -> bool:
        return True


class CountDivergingFetch(Rules):
    counts_diverging_fetch = True


class AcknowledgeAtAppend(Rules):
    acknowledges_at_append = True


class KeepFollowerEnds(Rules):
    def leadership_of_follower(self, replica: Replica) -> Leadership | None:
        return replica.leadership


class _AnyEarlierEpoch(Leader):
    __slots__ = ()

    def update_assignment_and_isr(
        self, replicas: Isr, isr: Isr, leader_epoch: int, partition_epoch: int, log_end_offset: int
    ) -> None:
        if self.leader_epoch != NO_LEADER_EPOCH:
            self.leader_epoch = max(self.leader_epoch, leader_epoch - 1)
        super().update_assignment_and_isr(replicas, isr, leader_epoch, partition_epoch, log_end_offset)


class KeepFollowerEndsAfterMissedEpoch(Rules):
    leader_type = _AnyEarlierEpoch


class _CommittedIsrOnly(Leader):
    __slots__ = ()

    def propose_isr(self, isr: Isr) -> IsrChange:
        change = super().propose_isr(isr)
        self.maximal_isr = self.isr
        return change


class HighWatermarkOverCommittedIsr(Rules):
    leader_type = _CommittedIsrOnly


class _ProposedIsr(Leader):
    __slots__ = ()

    def propose_isr(self, isr: Isr) -> IsrChange:
        change = super().propose_isr(isr)
        self.maximal_isr = isr
        return change


class ShrinkBeforeConfirmation(Rules):
    leader_type = _ProposedIsr


class _NoEpochStart(Leader):
    __slots__ = ()

    def maybe_expand_isr(self, broker_id: int, high_watermark: int) -> Isr | None:
        self.leader_epoch_start_offset = 0
        return super().maybe_expand_isr(broker_id, high_watermark)


class JoinBeforeEpochStart(Rules):
    leader_type = _NoEpochStart


class _AnyIsr(Leader):
    __slots__ = ()

    def is_under_min_isr(self, min_isr: int) -> bool:
        return False


class MinIsrIgnored(Rules):
    leader_type = _AnyIsr


class _CurrentForgotten(Leader):
    __slots__ = ()

    def high_watermark(self, current: int, log_end_offset: int, min_isr: int) -> int:
        return super().high_watermark(0, log_end_offset, min_isr)


class HighWatermarkGoesBack(Rules):
    leader_type = _CurrentForgotten


class WithdrawOnTimeout(Rules):
    withdraws_on_timeout = True


class WithdrawOnInvalidUpdateVersion(Rules):
    def withdraws(self, outcome: Outcome) -> bool:
        return outcome in (Outcome.INELIGIBLE_REPLICA, Outcome.INVALID_UPDATE_VERSION)


class WithdrawOnFencedLeaderEpoch(Rules):
    ignores_stale_messages = False

    def withdraws(self, outcome: Outcome) -> bool:
        return outcome in (Outcome.INELIGIBLE_REPLICA, Outcome.FENCED_LEADER_EPOCH)


class ResultOfAnyProposal(Rules):
    ignores_stale_messages = False

    def accepts_alteration(self, replica: Replica, alteration: Alteration) -> bool:
        return replica.leadership is not None


# LeaderAndIsr.


class StaleLeaderAndIsr(Rules):
    ignores_stale_messages = False

    def accepts_leader_and_isr(self, replica: Replica, request: Stored) -> bool:
        return request.leader_epoch != replica.epoch


class LowerPartitionEpoch(Rules):
    def accepts_leader_and_isr(self, replica: Replica, request: Stored) -> bool:
        leadership = replica.leadership
        is_repeated = leadership is not None and request.partition_epoch < leadership.partition_epoch
        return request.leader_epoch >= replica.epoch + (not is_repeated)


class RequestToFormerBrokerEpoch(Rules):
    ignores_stale_messages = False
    restart_hides_crash = True


# The controller.


class AlterPartitionOfFormerLeader(Rules):
    ignores_stale_messages = False

    def alteration_outcome(self, stored: Stored, request: Alteration, dead: int) -> Outcome:
        return super().alteration_outcome(stored._replace(leader_epoch=request.leader_epoch), request, dead)


class ElectOutsideIsr(Rules):
    def candidates(self, isr: int, live: int) -> int:
        return live


class ElectWithoutNewEpoch(Rules):
    def epoch_after_election(self, leader_epoch: int) -> int:
        return max(leader_epoch, 1)


class BounceWithoutNewEpoch(Rules):
    def needs_new_epoch(self, stored: Stored, broker: int, is_bounce: bool) -> bool:
        return not is_bounce and super().needs_new_epoch(stored, broker, is_bounce)


class PlantedBug(NamedTuple):
    name: str
    rules: type[Rules]
    scope: Scope


ELECTIONS: Final = Scope(records=2, epochs=2, shrinks=False)
THREE_EPOCHS: Final = Scope(records=1, epochs=3, shrinks=False)
BY_EPOCH_REQUEST: Final = Scope(records=2, epochs=3, shrinks=False, truncates_by_epoch_request=True)
SHRINKS: Final = Scope(records=1, epochs=2)
JOINS: Final = Scope(records=1, epochs=2, shrinks=False, initial_isr=0b011)
POWER_LOSS: Final = Scope(records=2, epochs=2, losses=1, shrinks=False)

PLANTED_BUGS: Final = (
    PlantedBug("a follower truncates to its high watermark", TruncateToHighWatermark, ELECTIONS),
    PlantedBug(
        "a follower truncates to the leader's end offset, whatever its own epochs",
        TruncateWithoutOwnEpochs,
        BY_EPOCH_REQUEST,
    ),
    PlantedBug(
        "no truncation check in a new epoch under the same leader", NoCheckUnderSameLeader, BY_EPOCH_REQUEST
    ),
    PlantedBug(
        "a follower's high watermark passes its log end offset",
        HighWatermarkBeyondEnd,
        JOINS._replace(records=2),
    ),
    PlantedBug(
        "a follower accepts a fetch response of an old epoch",
        ResponseOfAnyEpoch,
        BY_EPOCH_REQUEST._replace(messages=2),
    ),
    PlantedBug("a leader does not compare the last fetched epoch", NoDivergenceCheck, ELECTIONS),
    PlantedBug("a leader accepts a fetch of another epoch", FetchOfAnyEpoch, BY_EPOCH_REQUEST),
    PlantedBug("a diverging fetch counts as progress", CountDivergingFetch, ELECTIONS),
    PlantedBug("a leader acknowledges before the high watermark", AcknowledgeAtAppend, ELECTIONS),
    PlantedBug("follower end offsets survive another leader's epoch", KeepFollowerEnds, THREE_EPOCHS),
    PlantedBug(
        "follower end offsets survive an epoch that the leader missed (as in Kafka)",
        KeepFollowerEndsAfterMissedEpoch,
        THREE_EPOCHS,
    ),
    PlantedBug("the high watermark counts the committed ISR only", HighWatermarkOverCommittedIsr, JOINS),
    PlantedBug("a proposed shrink counts before its confirmation", ShrinkBeforeConfirmation, SHRINKS),
    PlantedBug("a follower joins the ISR below the epoch's start", JoinBeforeEpochStart, JOINS),
    PlantedBug("the high watermark moves below min.insync.replicas", MinIsrIgnored, SHRINKS),
    PlantedBug("the high watermark goes back to 0 when it cannot move", HighWatermarkGoesBack, SHRINKS),
    PlantedBug("a proposal is withdrawn after a timeout", WithdrawOnTimeout, JOINS),
    PlantedBug("a proposal is withdrawn on INVALID_UPDATE_VERSION", WithdrawOnInvalidUpdateVersion, JOINS),
    PlantedBug("a proposal is withdrawn on FENCED_LEADER_EPOCH", WithdrawOnFencedLeaderEpoch, JOINS),
    PlantedBug(
        "a leader accepts the result of an older proposal",
        ResultOfAnyProposal,
        Scope(records=0, epochs=3),
    ),
    PlantedBug("a broker accepts a LeaderAndIsr request of an old epoch", StaleLeaderAndIsr, ELECTIONS),
    PlantedBug("a leader accepts a lower partition epoch", LowerPartitionEpoch, JOINS),
    PlantedBug(
        "a restarted broker accepts requests to its former broker epoch",
        RequestToFormerBrokerEpoch,
        POWER_LOSS,
    ),
    PlantedBug(
        "the controller accepts AlterPartition of a former leader", AlterPartitionOfFormerLeader, SHRINKS
    ),
    PlantedBug("the controller elects a replica outside the ISR", ElectOutsideIsr, JOINS),
    PlantedBug("the controller elects without a new leader epoch", ElectWithoutNewEpoch, ELECTIONS),
    PlantedBug("a bounced broker gets no new leader epoch", BounceWithoutNewEpoch, POWER_LOSS),
)
