"""Subscriptions and positions: what excludes what, and which state follows which."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.positions.partition_state import (
    MAY_COME_FROM,
    FetchPosition,
    FetchState,
    OffsetReset,
    TopicPartitionState,
    Truncation,
)
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState, NoOffset
from odradek.model.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
S = FetchState


def reading(*partitions: TopicPartition, reset: OffsetReset = OffsetReset.LATEST) -> SubscriptionState:
    state = SubscriptionState(reset)
    state.assign(partitions)
    return state


WAYS: dict[str, Callable[[SubscriptionState], object]] = {
    "topics": lambda state: state.subscribe(["a"]),
    "pattern": lambda state: state.subscribe_pattern(re.compile("a.*")),
    "partitions": lambda state: state.assign([A0]),
}


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_ways_to_subscribe_exclude_each_other_until_unsubscribed(first: str, second: str) -> None:
    state = SubscriptionState(OffsetReset.LATEST)
    WAYS[first](state)
    if first == second:
        WAYS[second](state)
        return
    with pytest.raises(InvalidState, match="exclude each other"):
        WAYS[second](state)
    state.unsubscribe()
    WAYS[second](state)


def test_a_partition_that_stays_assigned_keeps_its_position() -> None:
    state = reading(A0, A1)
    state.of(A0).seek_validated(FetchPosition(7))
    assert state.assign([A0, B0])
    assert state.of(A0).position == FetchPosition(7)
    assert state.of(B0).state is S.INITIALIZING
    with pytest.raises(InvalidState, match="a-1 is not assigned"):
        state.of(A1)


def test_assigning_the_same_partitions_again_changes_nothing() -> None:
    state = reading(A0, A1)
    version = state.assignment_version
    assert not state.assign([A1, A0])
    assert state.assignment_version == version


def test_a_group_assigns_only_to_one_that_subscribed() -> None:
    with pytest.raises(InvalidState):
        reading(A0).assign_from_subscription([B0])
    state = SubscriptionState(OffsetReset.LATEST)
    state.subscribe(["a"])
    state.assign_from_subscription([A0])
    assert list(state.assigned) == [A0]
    assert state.fits([A0, A1])
    assert not state.fits([B0])


def test_a_pattern_must_match_whole_names() -> None:
    state = SubscriptionState(OffsetReset.LATEST)
    state.subscribe_pattern(re.compile("a|bb"))
    assert [topic for topic in ("a", "ab", "bb", "b") if state.matches(topic)] == ["a", "bb"]
    assert state.set_matched(["a"])
    assert not state.set_matched(["a"])
    assert state.subscribed_topics == {"a"}
    assert state.fits([TopicPartition("bb", 3)])


def test_metadata_is_needed_of_all_members_topics_while_this_one_leads() -> None:
    state = SubscriptionState(OffsetReset.LATEST)
    state.subscribe(["a"])
    assert state.set_group_topics(["a", "b"])
    assert state.group_topics == {"a", "b"}
    assert not state.set_group_topics(["b"])
    state.forget_group_topics()
    assert state.group_topics == {"a"}


def test_what_was_served_comes_last() -> None:
    state = reading(A0, A1, B0)
    state.serve_last(A0)
    assert list(state.assigned) == [A1, B0, A0]
    state.serve_last(TopicPartition("gone", 0))
    assert list(state.assigned) == [A1, B0, A0]


def test_paused_and_leaving_partitions_are_not_fetched() -> None:
    state = reading(A0, A1, B0)
    for partition in (A0, A1, B0):
        state.of(partition).seek_validated(FetchPosition(0))
    state.of(A0).paused = True
    state.mark_pending_revocation([A1])
    assert list(state.fetchable()) == [B0]
    assert state.paused() == {A0}


def test_only_valid_positions_are_committed() -> None:
    state = reading(A0, A1, B0)
    state.of(A0).seek_validated(FetchPosition(7, offset_epoch=3))
    state.of(B0).await_reset(OffsetReset.EARLIEST)
    assert state.all_consumed() == {A0: OffsetAndMetadata(7, "", 3)}


def test_partitions_without_a_commit_follow_the_policy() -> None:
    state = reading(A0, A1, reset=OffsetReset.EARLIEST)
    state.start_at_committed(A0, FetchPosition(5))
    state.reset_missing()
    assert state.needing_reset(0) == [A1]
    assert state.of(A1).reset is OffsetReset.EARLIEST
    assert state.of(A0).position == FetchPosition(5)


def test_without_a_policy_a_missing_commit_is_told_with_all_its_partitions() -> None:
    state = reading(A1, A0, reset=OffsetReset.NONE)
    with pytest.raises(NoOffset, match="a-0, a-1"):
        state.reset_missing()
    with pytest.raises(NoOffset):
        state.request_reset(A0)
    state.request_reset(A0, OffsetReset.EARLIEST)
    assert state.needing_reset(0) == [A0]


def test_a_commit_that_is_found_too_late_does_not_undo_a_seek() -> None:
    state = reading(A0)
    state.of(A0).seek_unvalidated(FetchPosition(9))
    state.start_at_committed(A0, FetchPosition(5))
    assert state.of(A0).position == FetchPosition(9)


def test_an_answer_to_a_reset_is_dropped_after_a_seek_or_another_reset() -> None:
    state = reading(A0)
    state.request_reset(A0, OffsetReset.EARLIEST)
    state.request_reset(A0, OffsetReset.LATEST)
    assert not state.complete_reset(A0, OffsetReset.EARLIEST, FetchPosition(0))
    state.of(A0).seek_unvalidated(FetchPosition(4))
    assert not state.complete_reset(A0, OffsetReset.LATEST, FetchPosition(99))
    assert state.of(A0).position == FetchPosition(4)
    state.request_reset(A0, OffsetReset.LATEST)
    assert state.complete_reset(A0, OffsetReset.LATEST, FetchPosition(99))
    assert state.has_all_positions


def test_what_is_under_way_is_not_asked_for_again_before_its_time() -> None:
    state = reading(A0)
    state.request_reset(A0)
    state.retry_at([A0, B0], 500)
    assert state.needing_reset(499) == []
    assert state.needing_reset(500) == [A0]


def awaiting_validation(reset: OffsetReset) -> tuple[SubscriptionState, FetchPosition]:
    state = reading(A0, reset=reset)
    asked = FetchPosition(10, 3, 1, 5)
    state.of(A0).seek_unvalidated(asked)
    assert state.needing_validation(0) == [A0]
    return state, asked


def test_a_log_that_still_has_the_offset_lets_the_reader_go_on() -> None:
    state, asked = awaiting_validation(OffsetReset.NONE)
    assert state.complete_validation(A0, asked, 3, 10) is None
    assert state.of(A0).state is S.FETCHING


def test_a_truncated_log_sends_its_reader_back_to_where_it_parted() -> None:
    state, asked = awaiting_validation(OffsetReset.LATEST)
    assert state.complete_validation(A0, asked, 2, 6) is None
    assert state.of(A0).position == FetchPosition(6, 2, 1, 5)
    assert state.of(A0).state is S.FETCHING


def test_without_a_policy_a_truncation_is_told() -> None:
    state, asked = awaiting_validation(OffsetReset.NONE)
    assert state.complete_validation(A0, asked, 2, 6) == Truncation(asked, 6, 2)
    assert state.complete_validation(A0, asked, -1, -1) == Truncation(asked, -1, -1)


def test_an_epoch_that_the_leader_does_not_know_resets_by_policy() -> None:
    state, asked = awaiting_validation(OffsetReset.EARLIEST)
    assert state.complete_validation(A0, asked, -1, -1) is None
    assert state.needing_reset(0) == [A0]


def test_a_validation_of_a_position_that_has_moved_is_dropped() -> None:
    state, asked = awaiting_validation(OffsetReset.NONE)
    state.of(A0).seek_unvalidated(FetchPosition(11, 3, 1, 5))
    assert state.complete_validation(A0, asked, 2, 6) is None
    assert state.of(A0).state is S.AWAITING_VALIDATION


def test_a_new_leader_epoch_asks_for_validation_only_if_it_can_be_answered() -> None:
    each = TopicPartitionState()
    assert not each.meet_leader(1, 5)
    each.seek_unvalidated(FetchPosition(10, 3))
    assert each.meet_leader(1, 5)
    each.complete_validation()
    assert not each.meet_leader(1, 5)
    assert not each.meet_leader(-1, 6)
    assert not each.meet_leader(2, 6, can_validate=False)
    assert each.position == FetchPosition(10, 3, 2, 6)
    assert each.meet_leader(2, 7)
    each.await_reset(OffsetReset.LATEST)
    assert not each.meet_leader(2, 8)


def test_a_position_without_an_epoch_needs_no_validation() -> None:
    each = TopicPartitionState()
    each.seek_unvalidated(FetchPosition(10, -1, 1, 5))
    assert not each.meet_leader(2, 6)
    assert each.is_fetchable


def test_a_preferred_replica_is_left_when_its_time_is_over_or_the_leader_changes() -> None:
    each = TopicPartitionState()
    each.seek_unvalidated(FetchPosition(10, 3, 1, 5))
    each.prefer(7, until_ms=100)
    assert each.preferred(100) == 7
    assert each.preferred(101) == -1
    each.prefer(7, until_ms=1000)
    each.meet_leader(2, 6)
    assert each.preferred(0) == -1


def test_lag_is_counted_to_what_the_reader_may_see() -> None:
    each = TopicPartitionState()
    each.seek_validated(FetchPosition(10))
    assert each.lag(read_committed=False) is None
    each.high_watermark, each.last_stable_offset = 17, 12
    assert (each.lag(read_committed=False), each.lag(read_committed=True)) == (7, 2)


def test_a_position_advances_only_while_fetching() -> None:
    each = TopicPartitionState()
    with pytest.raises(InvalidState, match="initializing"):
        each.advance(FetchPosition(1))


_positions = st.builds(
    FetchPosition, st.integers(0, 9), st.integers(-1, 3), st.integers(-1, 2), st.integers(-1, 3)
)
_moves = st.one_of(
    st.builds(lambda reset: lambda each: each.await_reset(reset), st.sampled_from(OffsetReset)),
    st.builds(lambda position: lambda each: each.seek_validated(position), _positions),
    st.builds(lambda position: lambda each: each.seek_unvalidated(position), _positions),
    st.builds(
        lambda leader, epoch, can: lambda each: each.meet_leader(leader, epoch, can_validate=can),
        st.integers(-1, 2),
        st.integers(-1, 3),
        st.booleans(),
    ),
    st.just(lambda each: each.complete_validation()),
)


@given(st.lists(_moves, max_size=20))
def test_whatever_happens_states_follow_the_table_and_fetching_has_a_position(
    moves: list[Callable[[TopicPartitionState], None]],
) -> None:
    each = TopicPartitionState()
    for move in moves:
        before = each.state
        move(each)
        via = {each.state, S.FETCHING}  # an unvalidated seek passes through FETCHING
        assert each.state is before or any(before in MAY_COME_FROM[state] for state in via)
        if each.state in (S.FETCHING, S.AWAITING_VALIDATION):
            assert each.position is not None
        if each.state is S.AWAITING_RESET:
            assert each.reset is not None
