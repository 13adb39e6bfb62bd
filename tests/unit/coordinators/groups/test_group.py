"""States, members and leader of a group."""

from __future__ import annotations

import itertools

import pytest

from odradek.coordinators.groups.group import (
    VALID_PREVIOUS_STATES,
    Group,
    GroupState,
    check_transition,
    stored_group,
)
from odradek.coordinators.groups.group_member import GroupMember

E, P, C, S, D = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
TRANSITIONS = {(E, P), (P, C), (P, E), (C, P), (C, S), (S, P), *((state, D) for state in GroupState)}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(GroupState, GroupState)))
def test_state_transitions_are_those_of_kafka(old: GroupState, new: GroupState) -> None:
    if (old, new) in TRANSITIONS:
        check_transition(old, new)
    else:
        with pytest.raises(AssertionError, match=f"from {old.value} to {new.value}"):
            check_transition(old, new)


def test_transition_table_has_every_state() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(GroupState)


def test_transition_sets_the_state_timestamp() -> None:
    group = Group("g", 5)
    group.transition_to(GroupState.PREPARING_REBALANCE, 9)
    assert (group.state, group.state_since_ms) == (GroupState.PREPARING_REBALANCE, 9)


def test_leader_that_did_not_rejoin_is_replaced() -> None:
    group = Group("g", 0)
    for member_id in ("a", "b", "c"):
        group.add(GroupMember(member_id, member_id, "c", "/h", 1, 1, (("range", b""),)), "consumer")
    assert group.leader == "a"
    assert not group.elect_leader()
    group.start_joining(group.members["b"], "b's request")
    assert group.elect_leader()
    assert group.leader == "b"


def test_removed_member_no_longer_counts_as_joining() -> None:
    group = Group("g", 0)
    group.add(GroupMember("a", None, "c", "/h", 1, 1, (("range", b""),)), "consumer")
    group.start_joining(group.members["a"], "a's request")
    group.remove("a")
    assert group.joining_count == 0


def test_state_timestamp_is_stored() -> None:
    group = Group("g", 5)
    group.transition_to(GroupState.PREPARING_REBALANCE, 9)
    group.transition_to(GroupState.EMPTY, 11)
    assert stored_group(group, {}).state_timestamp_ms == 11
    group.state_since_ms = None
    assert stored_group(group, {}).state_timestamp_ms == -1
