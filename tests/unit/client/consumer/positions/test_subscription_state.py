"""Subscription types, positions, and transitions of the fetch state."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.positions.partition_state import (
    VALID_PREVIOUS_STATES,
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


def assigned_to(*partitions: TopicPartition, reset: OffsetReset = OffsetReset.LATEST) -> SubscriptionState:
    state = SubscriptionState(reset)
    state.assign(partitions)
    return state


SUBSCRIBE: dict[str, Callable[[SubscriptionState], object]] = {
    "topics": lambda state: state.subscribe(["a"]),
    "pattern": lambda state: state.subscribe_pattern(re.compile("a.*")),
    "partitions": lambda state: state.assign([A0]),
}


@pytest.mark.parametrize("first", SUBSCRIBE)
@pytest.mark.parametrize("second", SUBSCRIBE)
def test_subscription_types_are_exclusive(first: str, second: str) -> None:
    state = SubscriptionState(OffsetReset.LATEST)
    SUBSCRIBE[first](state)
    if first == second:
        SUBSCRIBE[second](state)
        return
    with pytest.raises(InvalidState, match="subscription must stay with"):
        SUBSCRIBE[second](state)
    state.unsubscribe()
    SUBSCRIBE[second](state)


def test_partition_that_stays_assigned_keeps_position() -> None:
    state = assigned_to(A0, A1)
    state.of(A0).seek_validated(FetchPosition(7))
    assert state.assign([A0, B0])
    assert state.of(A0).position == FetchPosition(7)
    assert state.of(B0).state is S.INITIALIZING
    with pytest.raises(InvalidState, match="partition must be assigned to this consumer, got a-1"):
        state.of(A1)


def test_reassigning_same_partitions_changes_nothing() -> None:
    state = assigned_to(A0, A1)
    version = state.assignment_version
    assert not state.assign([A1, A0])
    assert state.assignment_version == version


def test_group_assignment_requires_subscription() -> None:
    with pytest.raises(InvalidState):
        assigned_to(A0).assign_from_subscription([B0])
    state = SubscriptionState(OffsetReset.LATEST)
    state.subscribe(["a"])
    state.assign_from_subscription([A0])
    assert list(state.assigned) == [A0]
    assert state.is_subscribed_to([A0, A1])
    assert not state.is_subscribed_to([B0])


def test_pattern_must_match_whole_name() -> None:
    state = SubscriptionState(OffsetReset.LATEST)
    state.subscribe_pattern(re.compile("a|bb"))
    assert [topic for topic in ("a", "ab", "bb", "b") if state.matches(topic)] == ["a", "bb"]
    assert state.set_matched(["a"])
    assert not state.set_matched(["a"])
    assert state.subscribed_topics == {"a"}
    assert state.is_subscribed_to([TopicPartition("bb", 3)])


def test_leader_needs_metadata_of_all_subscribed_topics() -> None:
    state = SubscriptionState(OffsetReset.LATEST)
    state.subscribe(["a"])
    assert state.set_group_topics(["a", "b"])
    assert state.group_topics == {"a", "b"}
    assert not state.set_group_topics(["b"])
    state.forget_group_topics()
    assert state.group_topics == {"a"}


def test_move_to_end() -> None:
    state = assigned_to(A0, A1, B0)
    state.move_to_end(A0)
    assert list(state.assigned) == [A1, B0, A0]
    state.move_to_end(TopicPartition("gone", 0))
    assert list(state.assigned) == [A1, B0, A0]


def test_paused_and_revoked_partitions_are_not_fetchable() -> None:
    state = assigned_to(A0, A1, B0)
    for partition in (A0, A1, B0):
        state.of(partition).seek_validated(FetchPosition(0))
    state.of(A0).paused = True
    state.mark_pending_revocation([A1])
    assert [partition for partition in (A0, A1, B0) if state.of(partition).is_fetchable] == [B0]
    assert state.paused() == {A0}


def test_only_valid_positions_are_committed() -> None:
    state = assigned_to(A0, A1, B0)
    state.of(A0).seek_validated(FetchPosition(7, offset_epoch=3))
    state.of(B0).await_reset(OffsetReset.EARLIEST)
    assert state.all_consumed() == {A0: OffsetAndMetadata(7, "", 3)}


def test_partitions_without_committed_offset_are_reset() -> None:
    state = assigned_to(A0, A1, reset=OffsetReset.EARLIEST)
    state.start_at_committed(A0, FetchPosition(5))
    state.reset_initializing()
    assert state.needing_reset(0) == [A1]
    assert state.of(A1).reset is OffsetReset.EARLIEST
    assert state.of(A0).position == FetchPosition(5)


def test_missing_committed_offset_without_policy_raises() -> None:
    state = assigned_to(A1, A0, reset=OffsetReset.NONE)
    with pytest.raises(NoOffset, match="a-0, a-1"):
        state.reset_initializing()
    with pytest.raises(NoOffset):
        state.request_reset(A0)
    state.request_reset(A0, OffsetReset.EARLIEST)
    assert state.needing_reset(0) == [A0]


def test_late_committed_offset_does_not_undo_seek() -> None:
    state = assigned_to(A0)
    state.of(A0).seek_unvalidated(FetchPosition(9))
    state.start_at_committed(A0, FetchPosition(5))
    assert state.of(A0).position == FetchPosition(9)


def test_reset_response_is_ignored_after_seek_or_reset() -> None:
    state = assigned_to(A0)
    state.request_reset(A0, OffsetReset.EARLIEST)
    state.request_reset(A0, OffsetReset.LATEST)
    assert not state.complete_reset(A0, OffsetReset.EARLIEST, FetchPosition(0))
    state.of(A0).seek_unvalidated(FetchPosition(4))
    assert not state.complete_reset(A0, OffsetReset.LATEST, FetchPosition(99))
    assert state.of(A0).position == FetchPosition(4)
    state.request_reset(A0, OffsetReset.LATEST)
    assert state.complete_reset(A0, OffsetReset.LATEST, FetchPosition(99))
    assert state.has_all_positions


def test_next_retry_delays_requests() -> None:
    state = assigned_to(A0)
    state.request_reset(A0)
    state.set_next_retry([A0, B0], 500)
    assert state.needing_reset(499) == []
    assert state.needing_reset(500) == [A0]


def awaiting_validation(reset: OffsetReset) -> tuple[SubscriptionState, FetchPosition]:
    state = assigned_to(A0, reset=reset)
    position = FetchPosition(10, 3, 1, 5)
    state.of(A0).seek_unvalidated(position)
    assert state.needing_validation(0) == [A0]
    return state, position


def test_validation_succeeds_if_log_has_offset() -> None:
    state, position = awaiting_validation(OffsetReset.NONE)
    assert state.complete_validation(A0, position, 3, 10) is None
    assert state.of(A0).state is S.FETCHING


def test_truncation_moves_position_to_divergence() -> None:
    state, position = awaiting_validation(OffsetReset.LATEST)
    assert state.complete_validation(A0, position, 2, 6) is None
    assert state.of(A0).position == FetchPosition(6, 2, 1, 5)
    assert state.of(A0).state is S.FETCHING


def test_truncation_without_policy_is_returned() -> None:
    state, position = awaiting_validation(OffsetReset.NONE)
    assert state.complete_validation(A0, position, 2, 6) == Truncation(position, 6, 2)
    assert state.complete_validation(A0, position, -1, -1) == Truncation(position, -1, -1)


def test_unknown_epoch_resets_by_policy() -> None:
    state, position = awaiting_validation(OffsetReset.EARLIEST)
    assert state.complete_validation(A0, position, -1, -1) is None
    assert state.needing_reset(0) == [A0]


def test_validation_of_changed_position_is_ignored() -> None:
    state, position = awaiting_validation(OffsetReset.NONE)
    state.of(A0).seek_unvalidated(FetchPosition(11, 3, 1, 5))
    assert state.complete_validation(A0, position, 2, 6) is None
    assert state.of(A0).state is S.AWAITING_VALIDATION


def test_new_leader_epoch_requires_validation_only_if_supported() -> None:
    state = TopicPartitionState()
    assert not state.update_leader(1, 5)
    state.seek_unvalidated(FetchPosition(10, 3))
    assert state.update_leader(1, 5)
    state.complete_validation()
    assert not state.update_leader(1, 5)
    assert not state.update_leader(-1, 6)
    assert not state.update_leader(2, 6, can_validate=False)
    assert state.position == FetchPosition(10, 3, 2, 6)
    assert state.update_leader(2, 7)
    state.await_reset(OffsetReset.LATEST)
    assert not state.update_leader(2, 8)


def test_position_without_epoch_needs_no_validation() -> None:
    state = TopicPartitionState()
    state.seek_unvalidated(FetchPosition(10, -1, 1, 5))
    assert not state.update_leader(2, 6)
    assert state.is_fetchable


def test_preferred_replica_expires() -> None:
    state = TopicPartitionState()
    state.seek_unvalidated(FetchPosition(10, 3, 1, 5))
    state.prefer(7, until_ms=100)
    assert state.preferred(100) == 7
    assert state.preferred(101) == -1
    state.prefer(7, until_ms=1000)
    state.update_leader(2, 6)
    assert state.preferred(0) == -1


def test_lag_depends_on_isolation_level() -> None:
    state = TopicPartitionState()
    state.seek_validated(FetchPosition(10))
    assert state.lag(read_committed=False) is None
    state.high_watermark, state.last_stable_offset = 17, 12
    assert (state.lag(read_committed=False), state.lag(read_committed=True)) == (7, 2)


def test_position_advances_only_while_fetching() -> None:
    state = TopicPartitionState()
    with pytest.raises(InvalidState, match="initializing"):
        state.advance(FetchPosition(1))


_positions = st.builds(
    FetchPosition, st.integers(0, 9), st.integers(-1, 3), st.integers(-1, 2), st.integers(-1, 3)
)
_transitions = st.one_of(
    st.builds(lambda reset: lambda state: state.await_reset(reset), st.sampled_from(OffsetReset)),
    st.builds(lambda position: lambda state: state.seek_validated(position), _positions),
    st.builds(lambda position: lambda state: state.seek_unvalidated(position), _positions),
    st.builds(
        lambda leader, epoch, can: lambda state: state.update_leader(leader, epoch, can_validate=can),
        st.integers(-1, 2),
        st.integers(-1, 3),
        st.booleans(),
    ),
    st.just(lambda state: state.complete_validation()),
)


@given(st.lists(_transitions, max_size=20))
def test_random_transitions_are_valid(
    transitions: list[Callable[[TopicPartitionState], None]],
) -> None:
    state = TopicPartitionState()
    for transition in transitions:
        before = state.state
        transition(state)
        via = {state.state, S.FETCHING}  # an unvalidated seek passes through FETCHING
        assert state.state is before or any(before in VALID_PREVIOUS_STATES[after] for after in via)
        if state.state in (S.FETCHING, S.AWAITING_VALIDATION):
            assert state.position is not None
        if state.state is S.AWAITING_RESET:
            assert state.reset is not None
