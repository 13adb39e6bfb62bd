"""High watermark and ISR changes, from follower fetches and time."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.replication.isr_state import NEVER_MS, IsrState

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
        self.isr_state = IsrState(1, LAG_TIME_MAX_MS, self.alive.__contains__)
        self.lead(1, replicas if isr is None else isr)

    def lead(self, leader_epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] | None = None) -> None:
        self.isr_state.update_assignment_and_isr(
            replicas or self.replicas, isr, leader_epoch, self.end, self.now_ms
        )

    def fetch(self, broker_id: int, offset: int, start: int = 0) -> None:
        replica = self.isr_state.replica(broker_id)
        assert replica is not None
        replica.update_fetch_state(offset, start, self.end, self.now_ms)

    def advance(self) -> int:
        self.watermark = self.isr_state.high_watermark(self.watermark, self.end, self.min_isr, self.now_ms)
        return self.watermark

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
    assert partition.isr_state.high_watermark(15, 10, 1, 0) == 15


def test_single_replica_allocates_nothing() -> None:
    isr_state = LeaderFixture((1,)).isr_state
    isr_state.high_watermark(1000, 2000, 1, 3000)
    before = sys.getallocatedblocks()
    for _ in range(200):
        isr_state.high_watermark(1000, 2000, 1, 3000)
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
    partition.isr_state.prepare_isr_change((1, 2, 3))
    assert partition.isr_state.maximal_isr == (1, 2, 3)
    assert partition.advance() == 0
    partition.isr_state.revert_isr_change()
    assert partition.isr_state.maximal_isr == (1, 2)
    assert partition.advance() == 10


def test_proposed_isr_removal_counts_only_once_committed() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.wait(LAG_TIME_MAX_MS + 1)
    partition.isr_state.prepare_isr_change((1,))
    assert partition.advance() == 0
    partition.isr_state.commit_isr((1,))
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
    assert not partition.isr_state.is_under_min_isr(9)
    partition.isr_state.commit_isr((1,))
    assert partition.isr_state.is_under_min_isr(9)


# Shrinking the ISR.


def test_silent_follower_leaves_isr_after_replica_lag_time() -> None:
    partition = LeaderFixture(end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 10)
    partition.end = 11
    partition.wait(LAG_TIME_MAX_MS)
    partition.fetch(2, 11)
    assert partition.isr_state.maybe_shrink_isr(partition.end, partition.now_ms) is None
    partition.wait(1)
    assert partition.isr_state.maybe_shrink_isr(partition.end, partition.now_ms) == (1, 2)


def test_follower_at_log_end_stays_in_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.fetch(2, 10)
    partition.wait(100 * LAG_TIME_MAX_MS)
    assert partition.isr_state.maybe_shrink_isr(partition.end, partition.now_ms) is None


def test_follower_one_fetch_behind_stays_in_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    for _ in range(20):
        partition.fetch(2, partition.end)
        partition.end += 5
        partition.wait(LAG_TIME_MAX_MS // 2)
        partition.fetch(2, partition.end - 1)
        partition.fetch(2, partition.end - 5)
        partition.end += 1
        assert partition.isr_state.maybe_shrink_isr(partition.end, partition.now_ms) is None


def test_reaching_previous_log_end_counts_as_caught_up_at_previous_fetch() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.fetch(2, 5)
    partition.wait(600)
    partition.end = 50
    partition.fetch(2, 10)
    replica = partition.isr_state.replica(2)
    assert replica is not None
    assert replica.last_caught_up_ms == partition.now_ms - 600
    partition.wait(401)
    assert partition.isr_state.maybe_shrink_isr(partition.end, partition.now_ms) == (1,)


def test_slow_follower_leaves_isr_although_it_fetches() -> None:
    partition = LeaderFixture((1, 2), end=1000)
    for offset in range(0, 100, 10):
        partition.wait(LAG_TIME_MAX_MS // 5)
        partition.fetch(2, offset)
    assert partition.isr_state.maybe_shrink_isr(partition.end, partition.now_ms) == (1,)


def test_unassigned_replica_leaves_isr() -> None:
    partition = LeaderFixture((1, 2), isr=(1, 2))
    partition.isr_state.update_assignment_and_isr((1, 3), (1, 2), 1, 0, partition.now_ms)
    assert partition.isr_state.replica(2) is None
    assert partition.isr_state.maybe_shrink_isr(0, partition.now_ms) == (1,)


def test_isr_of_leader_alone_does_not_shrink() -> None:
    assert LeaderFixture((1,), end=5).isr_state.maybe_shrink_isr(5, 10**9) is None


# Expanding the ISR.


def test_follower_joins_isr_at_high_watermark() -> None:
    partition = LeaderFixture(isr=(1, 2), end=0)
    partition.end = 10
    partition.watermark = 8
    partition.fetch(3, 7)
    assert partition.isr_state.maybe_expand_isr(3, partition.watermark) is None
    partition.fetch(3, 8)
    assert partition.isr_state.maybe_expand_isr(3, partition.watermark) == (1, 2, 3)


def test_follower_joins_isr_only_past_leader_epoch_start() -> None:
    partition = LeaderFixture(isr=(1,), end=20)
    partition.fetch(2, 15)
    assert partition.isr_state.maybe_expand_isr(2, 10) is None
    partition.fetch(2, 20)
    assert partition.isr_state.maybe_expand_isr(2, 10) == (1, 2)


def test_members_dead_brokers_and_strangers_do_not_join_isr() -> None:
    partition = LeaderFixture(isr=(1, 2))
    partition.fetch(3, 0)
    partition.alive.discard(3)
    assert [partition.isr_state.maybe_expand_isr(b, 0) for b in (1, 2, 3, 4)] == [None] * 4
    partition.alive.add(3)
    assert partition.isr_state.maybe_expand_isr(3, 0) == (1, 2, 3)


def test_follower_that_never_fetched_does_not_join_isr() -> None:
    assert LeaderFixture(isr=(1,)).isr_state.maybe_expand_isr(2, 0) is None


def test_one_pending_isr_change_at_a_time() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.fetch(3, 10)
    partition.wait(LAG_TIME_MAX_MS + 1)
    isr_state = partition.isr_state
    assert isr_state.maybe_expand_isr(3, 0) is not None
    assert isr_state.maybe_shrink_isr(10, partition.now_ms) is not None
    isr_state.prepare_isr_change((1, 2, 3))
    assert isr_state.is_isr_change_pending
    assert isr_state.maybe_expand_isr(3, 0) is None
    assert isr_state.maybe_shrink_isr(10, partition.now_ms) is None
    with pytest.raises(AssertionError, match="one ISR change"):
        isr_state.prepare_isr_change((1,))
    isr_state.commit_isr((1, 2, 3))
    assert not isr_state.is_isr_change_pending
    assert isr_state.isr == (1, 2, 3)


# Leader changes.


def test_new_leader_treats_isr_members_as_caught_up() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    assert partition.isr_state.maybe_shrink_isr(10, partition.now_ms + LAG_TIME_MAX_MS) is None
    assert partition.isr_state.maybe_shrink_isr(10, partition.now_ms + LAG_TIME_MAX_MS + 1) == (1,)
    outside = partition.isr_state.replica(3)
    assert outside is not None
    assert not outside.is_caught_up(10, partition.now_ms, LAG_TIME_MAX_MS)


def test_reelected_leader_keeps_follower_offsets() -> None:
    partition = LeaderFixture(isr=(1, 2), end=10)
    partition.fetch(2, 9, start=3)
    partition.fetch(3, 8)
    partition.wait(5000)
    partition.end = 12
    partition.lead(2, (1, 2))
    two, three = partition.isr_state.replica(2), partition.isr_state.replica(3)
    assert two is not None
    assert three is not None
    assert (two.log_end_offset, two.log_start_offset, two.last_caught_up_ms) == (9, 3, partition.now_ms)
    assert (two.last_fetch_leader_end_offset, two.last_fetch_ms) == (12, partition.now_ms)
    assert (three.log_end_offset, three.last_caught_up_ms, three.last_fetch_ms) == (8, NEVER_MS, NEVER_MS)
    assert (partition.isr_state.leader_epoch, partition.isr_state.leader_epoch_start_offset) == (2, 12)


def test_same_leader_epoch_updates_only_assignment_and_isr() -> None:
    partition = LeaderFixture((1, 2), end=10)
    partition.fetch(2, 9)
    partition.end = 12
    partition.wait(5000)
    partition.isr_state.prepare_isr_change((1,))
    partition.lead(1, (1, 2, 4), (1, 2, 4))
    two, four = partition.isr_state.replica(2), partition.isr_state.replica(4)
    assert two is not None
    assert four is not None
    assert (two.log_end_offset, two.last_fetch_ms) == (9, 7)
    assert (four.log_end_offset, four.last_caught_up_ms) == (-1, NEVER_MS)
    assert partition.isr_state.leader_epoch_start_offset == 10
    assert partition.isr_state.isr == partition.isr_state.maximal_isr == (1, 2, 4)
    assert not partition.isr_state.is_isr_change_pending
    assert partition.isr_state.replica_count == 3


def test_low_watermark_is_minimum_log_start_of_live_replicas() -> None:
    partition = LeaderFixture(end=10)
    partition.fetch(2, 10, start=4)
    partition.fetch(3, 10, start=2)
    assert partition.isr_state.low_watermark(7) == 2
    partition.alive.discard(3)
    assert partition.isr_state.low_watermark(7) == 4
    assert partition.isr_state.low_watermark(1) == 1


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
    isr_state, copied, epoch = partition.isr_state, {2: 0, 3: 0}, 1
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
            partition.lead(epoch, isr_state.isr)
        else:
            expansions = [isr_state.maybe_expand_isr(b, partition.watermark) for b in (2, 3)]
            proposal = (
                isr_state.maybe_shrink_isr(partition.end, partition.now_ms)
                if step == "shrink"
                else next((w for w in expansions if w is not None), None)
            )
            if proposal is not None:
                isr_state.prepare_isr_change(proposal)
                if amount:
                    isr_state.commit_isr(proposal)
                else:
                    isr_state.revert_isr_change()
        partition.advance()
        assert before <= partition.watermark <= partition.end
        for broker_id in set(isr_state.isr) & {2, 3}:
            assert copied[broker_id] >= partition.watermark
        assert isr_state.isr[0] == 1
        assert set(isr_state.isr) <= set(isr_state.maximal_isr)
