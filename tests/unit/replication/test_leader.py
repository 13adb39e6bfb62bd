"""High watermark and ISR changes, from follower fetches and time."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import ErrorCode
from odradek.replication.leader import NEVER_MS, IsrChangeOutcome, IsrChangeResult, Leader

LAG_TIME_MAX_MS = 1000


class LeaderFixture:
    """A leader on broker 1 with a log of some length, and its ISR state."""

    def __init__(
        self, replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] | None = None, end: int = 0
    ) -> None:
        self.now_ms = 7  # a clock that has only just begun
        self.end = end
        self.watermark = 0
        self.min_isr = 1
        self.alive = set(replicas)
        self.replicas = replicas
        self.partition_epoch = 0
        self.leader = Leader(1, LAG_TIME_MAX_MS, self.alive.__contains__, lambda: self.now_ms)
        self.lead(1, replicas if isr is None else isr)

    def lead(self, leader_epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] | None = None) -> None:
        self.partition_epoch += 1
        self.leader.update_assignment_and_isr(
            replicas or self.replicas, isr, leader_epoch, self.partition_epoch, self.end
        )

    def fetch(self, broker_id: int, offset: int, start: int = 0) -> None:
        replica = self.leader.replica(broker_id)
        assert replica is not None
        self.leader.record_fetch(replica, offset, start, self.end)

    def advance(self) -> int:
        self.watermark = self.leader.high_watermark(self.watermark, self.end, self.min_isr)
        return self.watermark

    def change_isr(self, *isr: int, error: ErrorCode = ErrorCode.NONE) -> IsrChangeOutcome:
        """Propose an ISR, or complete the proposal that is pending, and return the outcome."""
        self.partition_epoch += 1
        change = self.leader.propose_isr(isr)
        result = IsrChangeResult(error, isr, self.leader.leader_epoch, self.partition_epoch)
        return self.leader.complete_isr_change(change, result)

    def wait(self, ms: int) -> None:
        self.now_ms += ms


# The high watermark.


def test_high_watermark_of_single_replica_is_log_end_offset() -> None:
    partition = LeaderFixture((1,), end=10)
    assert partition.advance() == 10
    partition.end = 12
    assert partition.advance() == 12
    partition.min_isr = 3
    partition.end = 13
    assert partition.advance() == 13


def test_high_watermark_of_single_replica_never_decreases() -> None:
    partition = LeaderFixture((1,), end=10)
    assert partition.leader.high_watermark(15, 10, 1) == 15


def test_single_replica_allocates_nothing() -> None:
    leader = LeaderFixture((1,)).leader
    leader.high_watermark(1000, 2000, 1)
    before = sys.getallocatedblocks()
    for _ in range(200):
        leader.high_watermark(1000, 2000, 1)
    assert sys.getallocatedblocks() - before < 20


def test_high_watermark_is_minimum_over_isr() -> None:
    partition = LeaderFixture(end=10)
    assert partition.advance() == 0
    partition.fetch(2, 10)
    assert partition.advance() == 0
    partition.fetch(3, 6)
    assert partition.advance() == 6
    partition.fetch(3, 10)
    assert partition.advance() == 10


def test_high_watermark_does_not_follow_a_truncated_follower() -> None:
    partition = LeaderFixture(end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 10)
    partition.advance()
    partition.fetch(3, 4)
    assert partition.advance() == 10


def test_lagging_out_of_sync_follower_does_not_hold_back_high_watermark() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 1)
    assert partition.advance() == 10


def test_caught_up_follower_outside_isr_holds_back_high_watermark() -> None:
    partition = LeaderFixture(isr=(1,), end=10)
    partition.fetch(2, 10)
    partition.end = 20
    assert partition.advance() == 10
    partition.alive.discard(2)
    assert partition.advance() == 20


def test_follower_caught_up_long_ago_does_not_hold_back_high_watermark() -> None:
    partition = LeaderFixture(isr=(1,), end=10)
    partition.fetch(2, 10)
    partition.end = 20
    partition.wait(LAG_TIME_MAX_MS + 1)
    assert partition.advance() == 20


def test_proposed_isr_member_holds_back_high_watermark() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.fetch(2, 10)
    change = partition.leader.propose_isr((1, 2, 3))
    assert partition.leader.maximal_isr == (1, 2, 3)
    assert partition.advance() == 0
    partition.leader.complete_isr_change(change, IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA))
    assert partition.leader.maximal_isr == (1, 2)
    assert partition.advance() == 10


def test_proposed_isr_removal_counts_only_once_committed() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.wait(LAG_TIME_MAX_MS + 1)
    change = partition.leader.propose_isr((1,))
    assert partition.advance() == 0
    partition.leader.complete_isr_change(change, IsrChangeResult(ErrorCode.NONE, (1,), 1, 2))
    assert partition.advance() == 10


def test_high_watermark_stands_still_under_min_isr() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.min_isr = 3
    partition.fetch(2, 10)
    assert partition.advance() == 0
    partition.min_isr = 2
    assert partition.advance() == 10


def test_under_min_isr_uses_capped_min_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.min_isr = 9
    partition.fetch(2, 10)
    assert partition.advance() == 10
    assert not partition.leader.is_under_min_isr(9)
    partition.change_isr(1)
    assert partition.leader.is_under_min_isr(9)


# Shrinking the ISR.


def test_silent_follower_leaves_isr_after_replica_lag_time() -> None:
    partition = LeaderFixture(end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 10)
    partition.end = 11
    partition.wait(LAG_TIME_MAX_MS)
    partition.fetch(2, 11)
    assert partition.leader.maybe_shrink_isr(partition.end) is None
    partition.wait(1)
    assert partition.leader.maybe_shrink_isr(partition.end) == (1, 2)


def test_follower_at_log_end_stays_in_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.fetch(2, 10)
    partition.wait(100 * LAG_TIME_MAX_MS)
    assert partition.leader.maybe_shrink_isr(partition.end) is None


def test_follower_one_fetch_behind_stays_in_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    for _ in range(20):
        partition.fetch(2, partition.end)
        partition.end += 5
        partition.wait(LAG_TIME_MAX_MS // 2)
        partition.fetch(2, partition.end - 1)
        partition.fetch(2, partition.end - 5)
        partition.end += 1
        assert partition.leader.maybe_shrink_isr(partition.end) is None


def test_reaching_previous_log_end_counts_as_caught_up_at_previous_fetch() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.fetch(2, 5)
    partition.wait(600)
    partition.end = 50
    partition.fetch(2, 10)
    replica = partition.leader.replica(2)
    assert replica is not None
    assert replica.last_caught_up_ms == partition.now_ms - 600
    partition.wait(401)
    assert partition.leader.maybe_shrink_isr(partition.end) == (1,)


def test_slow_follower_leaves_isr_although_it_fetches() -> None:
    partition = LeaderFixture((1, 2), end=1000)
    for offset in range(0, 100, 10):
        partition.wait(LAG_TIME_MAX_MS // 5)
        partition.fetch(2, offset)
    assert partition.leader.maybe_shrink_isr(partition.end) == (1,)


def test_unassigned_replica_leaves_isr() -> None:
    partition = LeaderFixture((1, 2), isr=(1, 2))
    partition.lead(1, (1, 2), (1, 3))
    assert partition.leader.replica(2) is None
    assert partition.leader.maybe_shrink_isr(0) == (1,)


def test_isr_of_leader_alone_does_not_shrink() -> None:
    assert LeaderFixture((1,), end=5).leader.maybe_shrink_isr(5) is None


# Expanding the ISR.


def test_follower_joins_isr_at_high_watermark() -> None:
    partition = LeaderFixture(isr=(1, 2), end=0)
    partition.end = 10
    partition.watermark = 8
    partition.fetch(3, 7)
    assert partition.leader.maybe_expand_isr(3, partition.watermark) is None
    partition.fetch(3, 8)
    assert partition.leader.maybe_expand_isr(3, partition.watermark) == (1, 2, 3)


def test_follower_joins_isr_only_past_leader_epoch_start() -> None:
    partition = LeaderFixture(isr=(1,), end=20)
    partition.fetch(2, 15)
    assert partition.leader.maybe_expand_isr(2, 10) is None
    partition.fetch(2, 20)
    assert partition.leader.maybe_expand_isr(2, 10) == (1, 2)


def test_members_dead_brokers_and_strangers_do_not_join_isr() -> None:
    partition = LeaderFixture(isr=(1, 2))
    partition.fetch(3, 0)
    partition.alive.discard(3)
    assert [partition.leader.maybe_expand_isr(b, 0) for b in (1, 2, 3, 4)] == [None] * 4
    partition.alive.add(3)
    assert partition.leader.maybe_expand_isr(3, 0) == (1, 2, 3)


def test_follower_that_never_fetched_does_not_join_isr() -> None:
    assert LeaderFixture(isr=(1,)).leader.maybe_expand_isr(2, 0) is None


def test_one_pending_isr_change_at_a_time() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.fetch(3, 10)
    partition.wait(LAG_TIME_MAX_MS + 1)
    leader = partition.leader
    assert leader.maybe_expand_isr(3, 0) is not None
    assert leader.maybe_shrink_isr(10) is not None
    change = leader.propose_isr((1, 2, 3))
    assert leader.is_isr_change_pending
    assert leader.maybe_expand_isr(3, 0) is None
    assert leader.maybe_shrink_isr(10) is None
    with pytest.raises(AssertionError, match="one ISR change"):
        leader.propose_isr((1,))
    leader.complete_isr_change(change, IsrChangeResult(ErrorCode.NONE, (1, 2, 3), 1, 2))
    assert not leader.is_isr_change_pending
    assert leader.isr == (1, 2, 3)


COMMITTED, PENDING = IsrChangeOutcome.COMMITTED, IsrChangeOutcome.PENDING
REVERTED, RETRY = IsrChangeOutcome.REVERTED, IsrChangeOutcome.RETRY


@pytest.mark.parametrize(
    ("result", "outcome", "isr"),
    [
        (IsrChangeResult(ErrorCode.NONE, (1, 2, 3), 1, 2), COMMITTED, (1, 2, 3)),
        (IsrChangeResult(ErrorCode.NONE, (1, 2, 3), 1, 1), COMMITTED, (1, 2, 3)),
        (IsrChangeResult(ErrorCode.NONE, (1, 2), 1, 2), COMMITTED, (1, 2)),
        (IsrChangeResult(ErrorCode.NONE, (1, 2, 3), 2, 2), PENDING, None),
        (IsrChangeResult(ErrorCode.NONE, (1, 2, 3), 0, 2), PENDING, None),
        (IsrChangeResult(ErrorCode.NONE, (1, 2, 3), 1, 0), PENDING, None),
        (IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA), REVERTED, (1, 2)),
        (IsrChangeResult(ErrorCode.OPERATION_NOT_ATTEMPTED), REVERTED, (1, 2)),
        (IsrChangeResult(ErrorCode.INVALID_UPDATE_VERSION), PENDING, None),
        (IsrChangeResult(ErrorCode.FENCED_LEADER_EPOCH), PENDING, None),
        (IsrChangeResult(ErrorCode.INVALID_REQUEST), PENDING, None),
        (IsrChangeResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), PENDING, None),
        (IsrChangeResult(ErrorCode.UNKNOWN_TOPIC_ID), PENDING, None),
        (IsrChangeResult(ErrorCode.NEW_LEADER_ELECTED), PENDING, None),
        (IsrChangeResult(ErrorCode.UNKNOWN_SERVER_ERROR), RETRY, None),
        (IsrChangeResult(ErrorCode.REQUEST_TIMED_OUT), RETRY, None),
    ],
)
def test_result_of_an_isr_change(
    result: IsrChangeResult, outcome: IsrChangeOutcome, isr: tuple[int, ...] | None
) -> None:
    leader = LeaderFixture(isr=(1, 2), end=10).leader
    change = leader.propose_isr((1, 2, 3))
    assert (change.leader_epoch, change.partition_epoch) == (1, 1)
    assert leader.complete_isr_change(change, result) is outcome
    assert leader.is_isr_change_pending is (isr is None)
    assert leader.isr == (isr or (1, 2))
    assert leader.maximal_isr == (isr or (1, 2, 3)), "a pending member counts"
    assert leader.partition_epoch == (result.partition_epoch if outcome is COMMITTED else 1)


def test_result_of_a_replaced_proposal_is_ignored() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    old = partition.leader.propose_isr((1, 2, 3))
    partition.lead(2, (1, 2))
    new = partition.leader.propose_isr((1, 2, 3))
    result = IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA)
    assert partition.leader.complete_isr_change(old, result) is IsrChangeOutcome.IGNORED
    assert partition.leader.maximal_isr == (1, 2, 3)
    assert partition.leader.complete_isr_change(new, result) is IsrChangeOutcome.REVERTED


def test_readable_replicas_are_isr_members_that_have_the_offset() -> None:
    partition = LeaderFixture((1, 2, 3, 4), isr=(1, 2, 3), end=10)
    for broker_id, end, start in ((2, 8, 4), (3, 10, 6), (4, 10, 0)):
        partition.fetch(broker_id, end, start)
    readable = {
        offset: [broker_id for broker_id, _ in partition.leader.readable_replicas(offset)]
        for offset in (3, 4, 6, 8, 9, 10, 11)
    }
    assert readable == {3: [], 4: [2], 6: [2, 3], 8: [2, 3], 9: [3], 10: [3], 11: []}


# Leader changes.


def test_new_leader_treats_isr_members_as_caught_up() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    outside = partition.leader.replica(3)
    assert outside is not None
    assert not outside.is_caught_up(10, partition.now_ms, LAG_TIME_MAX_MS)
    partition.wait(LAG_TIME_MAX_MS)
    assert partition.leader.maybe_shrink_isr(10) is None
    partition.wait(1)
    assert partition.leader.maybe_shrink_isr(10) == (1,)


def test_reelected_leader_keeps_follower_offsets() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.fetch(2, 9, start=3)
    partition.fetch(3, 8)
    partition.wait(5000)
    partition.end = 12
    partition.lead(2, (1, 2))
    two, three = partition.leader.replica(2), partition.leader.replica(3)
    assert two is not None
    assert three is not None
    assert (two.log_end_offset, two.log_start_offset, two.last_caught_up_ms) == (9, 3, partition.now_ms)
    assert (two.last_fetch_leader_end_offset, two.last_fetch_ms) == (12, partition.now_ms)
    assert (three.log_end_offset, three.last_caught_up_ms, three.last_fetch_ms) == (8, NEVER_MS, NEVER_MS)
    assert (partition.leader.leader_epoch, partition.leader.leader_epoch_start_offset) == (2, 12)


def test_leader_that_missed_an_epoch_forgets_follower_offsets() -> None:
    """Another broker may have led in between, and the follower may have truncated its log."""
    partition = LeaderFixture(end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 10)
    assert partition.advance() == 10
    partition.end = 12
    partition.fetch(2, 12)
    partition.lead(3, (1, 2))
    assert partition.advance() == 10
    partition.fetch(2, 12)
    assert partition.advance() == 12


def test_same_leader_epoch_updates_only_assignment_and_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.fetch(2, 9)
    partition.end = 12
    partition.wait(5000)
    partition.leader.propose_isr((1,))
    partition.lead(1, (1, 2, 4), (1, 2, 4))
    two, four = partition.leader.replica(2), partition.leader.replica(4)
    assert two is not None
    assert four is not None
    assert (two.log_end_offset, two.last_fetch_ms) == (9, 7)
    assert (four.log_end_offset, four.last_caught_up_ms) == (-1, NEVER_MS)
    assert partition.leader.leader_epoch_start_offset == 10
    assert partition.leader.isr == partition.leader.maximal_isr == (1, 2, 4)
    assert not partition.leader.is_isr_change_pending
    assert partition.leader.replica_count == 3


def test_low_watermark_is_minimum_log_start_of_live_replicas() -> None:
    partition = LeaderFixture(end=10)
    partition.fetch(2, 10, start=4)
    partition.fetch(3, 10, start=2)
    assert partition.leader.low_watermark(7) == 2
    partition.alive.discard(3)
    assert partition.leader.low_watermark(7) == 4
    assert partition.leader.low_watermark(1) == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 5)),
            st.tuples(st.just("fetch"), st.integers(2, 3)),
            st.tuples(st.just("wait"), st.integers(0, 2 * LAG_TIME_MAX_MS)),
            st.tuples(st.just("shrink"), st.booleans()),
            st.tuples(st.just("expand"), st.booleans()),
            st.tuples(st.just("elect"), st.integers(1, 1)),
        ),
        max_size=60,
    )
)
def test_isr_members_have_everything_below_high_watermark(steps: list[tuple[str, int]]) -> None:
    """Followers copy in order; ISR members have everything below the high watermark when it moves."""
    partition = LeaderFixture(end=0)
    leader, copied, epoch = partition.leader, {2: 0, 3: 0}, 1
    for step, amount in steps:
        before = partition.watermark
        if step == "append":
            partition.end += amount
        elif step == "wait":
            partition.wait(amount)
        elif step == "fetch":
            # The fetch offset is what the follower has; the response brings it to the log end.
            partition.fetch(amount, copied[amount])
            copied[amount] = partition.end
        elif step == "elect":
            epoch += 1
            partition.lead(epoch, leader.isr)
        else:
            expansions = [leader.maybe_expand_isr(b, partition.watermark) for b in (2, 3)]
            proposal = (
                leader.maybe_shrink_isr(partition.end)
                if step == "shrink"
                else next((w for w in expansions if w is not None), None)
            )
            if proposal is not None:
                error = ErrorCode.NONE if amount else ErrorCode.INELIGIBLE_REPLICA
                partition.change_isr(*proposal, error=error)
        partition.advance()
        assert before <= partition.watermark <= partition.end
        for broker_id in set(leader.isr) & {2, 3}:
            assert copied[broker_id] >= partition.watermark
        assert leader.isr[0] == 1
        assert set(leader.isr) <= set(leader.maximal_isr)
