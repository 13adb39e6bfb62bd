"""High watermark and ISR wishes, from followers' fetches and the time."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.replication.isr_state import NEVER_MS, IsrState

LAG_MS = 1000


class Partition:
    """A leader on broker 1 with a log of some length, and the progress it keeps."""

    def __init__(
        self, replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] | None = None, end: int = 0
    ) -> None:
        self.now_ms = 7  # a clock that has only just begun
        self.end = end
        self.watermark = 0
        self.min_isr = 1
        self.alive = set(replicas)
        self.replicas = replicas
        self.progress = IsrState(1, LAG_MS, self.alive.__contains__)
        self.lead(1, replicas if isr is None else isr)

    def lead(self, leader_epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] | None = None) -> None:
        self.progress.lead(replicas or self.replicas, isr, leader_epoch, self.end, self.now_ms)

    def fetch(self, broker_id: int, offset: int, start: int = 0) -> None:
        follower = self.progress.follower(broker_id)
        assert follower is not None
        follower.fetched(offset, start, self.end, self.now_ms)

    def advance(self) -> int:
        self.watermark = self.progress.high_watermark(self.watermark, self.end, self.min_isr, self.now_ms)
        return self.watermark

    def wait(self, ms: int) -> None:
        self.now_ms += ms


# The high watermark.


def test_with_one_replica_the_watermark_is_the_end() -> None:
    partition = Partition((1,), end=10)
    assert partition.advance() == 10
    partition.end = 12
    assert partition.advance() == 12
    partition.min_isr = 3
    partition.end = 13
    assert partition.advance() == 13


def test_with_one_replica_the_watermark_never_goes_back() -> None:
    partition = Partition((1,), end=10)
    assert partition.progress.high_watermark(15, 10, 1, 0) == 15


def test_with_one_replica_nothing_is_allocated() -> None:
    progress = Partition((1,)).progress
    progress.high_watermark(1000, 2000, 1, 3000)
    before = sys.getallocatedblocks()
    for _ in range(200):
        progress.high_watermark(1000, 2000, 1, 3000)
    assert sys.getallocatedblocks() - before < 20


def test_the_watermark_waits_for_all_in_sync() -> None:
    partition = Partition(end=10)
    assert partition.advance() == 0
    partition.fetch(2, 10)
    assert partition.advance() == 0
    partition.fetch(3, 6)
    assert partition.advance() == 6
    partition.fetch(3, 10)
    assert partition.advance() == 10


def test_the_watermark_does_not_go_back_with_a_follower() -> None:
    partition = Partition(end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 10)
    partition.advance()
    partition.fetch(3, 4)
    assert partition.advance() == 10


def test_a_follower_out_of_sync_and_behind_is_not_waited_for() -> None:
    partition = Partition(isr=(1, 2), end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 1)
    assert partition.advance() == 10


def test_a_follower_about_to_join_is_waited_for() -> None:
    partition = Partition(isr=(1,), end=10)
    partition.fetch(2, 10)
    partition.end = 20
    assert partition.advance() == 10
    partition.alive.discard(2)
    assert partition.advance() == 20


def test_a_follower_that_caught_up_long_ago_is_not_waited_for() -> None:
    partition = Partition(isr=(1,), end=10)
    partition.fetch(2, 10)
    partition.end = 20
    partition.wait(LAG_MS + 1)
    assert partition.advance() == 20


def test_a_proposed_member_is_waited_for_before_it_is_confirmed() -> None:
    partition = Partition(isr=(1, 2), end=10)
    partition.fetch(2, 10)
    partition.progress.propose((1, 2, 3))
    assert partition.progress.maximal_isr == (1, 2, 3)
    assert partition.advance() == 0
    partition.progress.withdraw()
    assert partition.progress.maximal_isr == (1, 2)
    assert partition.advance() == 10


def test_a_proposed_leaver_is_waited_for_until_it_has_left() -> None:
    partition = Partition((1, 2), end=10)
    partition.wait(LAG_MS + 1)
    partition.progress.propose((1,))
    assert partition.advance() == 0
    partition.progress.commit((1,))
    assert partition.advance() == 10


def test_under_min_isr_the_watermark_stands_still() -> None:
    partition = Partition(isr=(1, 2), end=10)
    partition.min_isr = 3
    partition.fetch(2, 10)
    assert partition.advance() == 0
    partition.min_isr = 2
    assert partition.advance() == 10


def test_min_isr_counts_no_more_than_the_replicas() -> None:
    partition = Partition((1, 2), end=10)
    partition.min_isr = 9
    partition.fetch(2, 10)
    assert partition.advance() == 10
    assert not partition.progress.is_under_min_isr(9)
    partition.progress.commit((1,))
    assert partition.progress.is_under_min_isr(9)


# Leaving the ISR.


def test_a_follower_that_stops_fetching_leaves_after_the_lag_limit() -> None:
    partition = Partition(end=10)
    partition.fetch(2, 10)
    partition.fetch(3, 10)
    partition.end = 11
    partition.wait(LAG_MS)
    partition.fetch(2, 11)
    assert partition.progress.wish_to_shrink(partition.end, partition.now_ms) is None
    partition.wait(1)
    assert partition.progress.wish_to_shrink(partition.end, partition.now_ms) == (1, 2)


def test_a_follower_at_the_end_stays_however_long_it_is_silent() -> None:
    partition = Partition((1, 2), end=10)
    partition.fetch(2, 10)
    partition.wait(100 * LAG_MS)
    assert partition.progress.wish_to_shrink(partition.end, partition.now_ms) is None


def test_a_follower_that_is_always_one_fetch_behind_stays() -> None:
    partition = Partition((1, 2), end=10)
    for _ in range(20):
        partition.fetch(2, partition.end)
        partition.end += 5
        partition.wait(LAG_MS // 2)
        partition.fetch(2, partition.end - 1)
        partition.fetch(2, partition.end - 5)
        partition.end += 1
        assert partition.progress.wish_to_shrink(partition.end, partition.now_ms) is None


def test_reaching_what_was_the_end_at_the_last_fetch_counts_from_then() -> None:
    partition = Partition((1, 2), end=10)
    partition.fetch(2, 5)
    partition.wait(600)
    partition.end = 50
    partition.fetch(2, 10)
    follower = partition.progress.follower(2)
    assert follower is not None
    assert follower.caught_up_ms == partition.now_ms - 600
    partition.wait(401)
    assert partition.progress.wish_to_shrink(partition.end, partition.now_ms) == (1,)


def test_a_slow_follower_leaves_though_it_fetches() -> None:
    partition = Partition((1, 2), end=1000)
    for offset in range(0, 100, 10):
        partition.wait(LAG_MS // 5)
        partition.fetch(2, offset)
    assert partition.progress.wish_to_shrink(partition.end, partition.now_ms) == (1,)


def test_a_member_that_is_no_replica_any_more_leaves() -> None:
    partition = Partition((1, 2), isr=(1, 2))
    partition.progress.lead((1, 3), (1, 2), 1, 0, partition.now_ms)
    assert partition.progress.follower(2) is None
    assert partition.progress.wish_to_shrink(0, partition.now_ms) == (1,)


def test_a_leader_alone_has_nobody_to_send_away() -> None:
    assert Partition((1,), end=5).progress.wish_to_shrink(5, 10**9) is None


# Joining the ISR.


def test_a_follower_joins_at_the_high_watermark() -> None:
    partition = Partition(isr=(1, 2), end=0)
    partition.end = 10
    partition.watermark = 8
    partition.fetch(3, 7)
    assert partition.progress.wish_to_expand(3, partition.watermark) is None
    partition.fetch(3, 8)
    assert partition.progress.wish_to_expand(3, partition.watermark) == (1, 2, 3)


def test_a_follower_must_reach_the_start_of_the_leaders_epoch() -> None:
    partition = Partition(isr=(1,), end=20)
    partition.fetch(2, 15)
    assert partition.progress.wish_to_expand(2, 10) is None
    partition.fetch(2, 20)
    assert partition.progress.wish_to_expand(2, 10) == (1, 2)


def test_who_is_in_or_not_alive_or_no_replica_does_not_join() -> None:
    partition = Partition(isr=(1, 2))
    partition.fetch(3, 0)
    partition.alive.discard(3)
    assert [partition.progress.wish_to_expand(b, 0) for b in (1, 2, 3, 4)] == [None] * 4
    partition.alive.add(3)
    assert partition.progress.wish_to_expand(3, 0) == (1, 2, 3)


def test_a_follower_not_heard_of_does_not_join() -> None:
    assert Partition(isr=(1,)).progress.wish_to_expand(2, 0) is None


def test_while_a_change_is_under_way_there_are_no_other_wishes() -> None:
    partition = Partition(isr=(1, 2), end=10)
    partition.fetch(3, 10)
    partition.wait(LAG_MS + 1)
    progress = partition.progress
    assert progress.wish_to_expand(3, 0) is not None
    assert progress.wish_to_shrink(10, partition.now_ms) is not None
    progress.propose((1, 2, 3))
    assert progress.is_isr_change_under_way
    assert progress.wish_to_expand(3, 0) is None
    assert progress.wish_to_shrink(10, partition.now_ms) is None
    with pytest.raises(AssertionError, match="one change"):
        progress.propose((1,))
    progress.commit((1, 2, 3))
    assert not progress.is_isr_change_under_way
    assert progress.isr == (1, 2, 3)


# Leading.


def test_a_new_leader_gives_members_of_the_isr_time_and_the_others_none() -> None:
    partition = Partition(isr=(1, 2), end=10)
    assert partition.progress.wish_to_shrink(10, partition.now_ms + LAG_MS) is None
    assert partition.progress.wish_to_shrink(10, partition.now_ms + LAG_MS + 1) == (1,)
    outside = partition.progress.follower(3)
    assert outside is not None
    assert not outside.is_caught_up(10, partition.now_ms, LAG_MS)


def test_a_leader_elected_again_keeps_what_it_knows_of_followers() -> None:
    partition = Partition(isr=(1, 2), end=10)
    partition.fetch(2, 9, start=3)
    partition.fetch(3, 8)
    partition.wait(5000)
    partition.end = 12
    partition.lead(2, (1, 2))
    two, three = partition.progress.follower(2), partition.progress.follower(3)
    assert two is not None
    assert three is not None
    assert (two.end_offset, two.log_start_offset, two.caught_up_ms) == (9, 3, partition.now_ms)
    assert (two.leader_end_offset_at_last_fetch, two.last_fetch_ms) == (12, partition.now_ms)
    assert (three.end_offset, three.caught_up_ms, three.last_fetch_ms) == (8, NEVER_MS, NEVER_MS)
    assert (partition.progress.leader_epoch, partition.progress.epoch_start_offset) == (2, 12)


def test_the_same_epoch_again_changes_only_replicas_and_isr() -> None:
    partition = Partition((1, 2), end=10)
    partition.fetch(2, 9)
    partition.end = 12
    partition.wait(5000)
    partition.progress.propose((1,))
    partition.lead(1, (1, 2, 4), (1, 2, 4))
    two, four = partition.progress.follower(2), partition.progress.follower(4)
    assert two is not None
    assert four is not None
    assert (two.end_offset, two.last_fetch_ms) == (9, 7)
    assert (four.end_offset, four.caught_up_ms) == (-1, NEVER_MS)
    assert partition.progress.epoch_start_offset == 10
    assert partition.progress.isr == partition.progress.maximal_isr == (1, 2, 4)
    assert not partition.progress.is_isr_change_under_way
    assert partition.progress.replica_count == 3


def test_the_low_watermark_is_the_smallest_start_of_the_living() -> None:
    partition = Partition(end=10)
    partition.fetch(2, 10, start=4)
    partition.fetch(3, 10, start=2)
    assert partition.progress.low_watermark(7) == 2
    partition.alive.discard(3)
    assert partition.progress.low_watermark(7) == 4
    assert partition.progress.low_watermark(1) == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 5)),
            st.tuples(st.just("fetch"), st.integers(2, 3)),
            st.tuples(st.just("wait"), st.integers(0, 2 * LAG_MS)),
            st.tuples(st.just("shrink"), st.booleans()),
            st.tuples(st.just("expand"), st.booleans()),
            st.tuples(st.just("elect"), st.integers(1, 1)),
        ),
        max_size=60,
    )
)
def test_what_is_below_the_watermark_is_on_every_replica_in_sync(steps: list[tuple[str, int]]) -> None:
    """Followers copy in order; whoever is in the ISR when the watermark moves has all below it."""
    partition = Partition(end=0)
    progress, copied, epoch = partition.progress, {2: 0, 3: 0}, 1
    for what, amount in steps:
        before = partition.watermark
        if what == "append":
            partition.end += amount
        elif what == "wait":
            partition.wait(amount)
        elif what == "fetch":
            # The fetch says what the follower had; its answer brings it up to the end.
            partition.fetch(amount, copied[amount])
            copied[amount] = partition.end
        elif what == "elect":
            epoch += 1
            partition.lead(epoch, progress.isr)
        else:
            wishes = [progress.wish_to_expand(b, partition.watermark) for b in (2, 3)]
            wish = (
                progress.wish_to_shrink(partition.end, partition.now_ms)
                if what == "shrink"
                else next((w for w in wishes if w is not None), None)
            )
            if wish is not None:
                progress.propose(wish)
                if amount:
                    progress.commit(wish)
                else:
                    progress.withdraw()
        partition.advance()
        assert before <= partition.watermark <= partition.end
        for broker_id in set(progress.isr) & {2, 3}:
            assert copied[broker_id] >= partition.watermark
        assert progress.isr[0] == 1
        assert set(progress.isr) <= set(progress.maximal_isr)
