"""The table of a group's states."""

from __future__ import annotations

import itertools

import pytest

from odradek.coordinators.groups.group import VALID_PREVIOUS_STATES, Group, GroupState, check_move
from odradek.coordinators.groups.group_member import GroupMember

E, P, C, S, D = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
MOVES = {(E, P), (P, C), (P, E), (C, P), (C, S), (S, P), *((state, D) for state in GroupState)}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(GroupState, GroupState)))
def test_a_group_moves_as_kafka_lets_it_and_no_other_way(old: GroupState, new: GroupState) -> None:
    if (old, new) in MOVES:
        check_move(old, new)
    else:
        with pytest.raises(AssertionError, match=f"from {old.value} to {new.value}"):
            check_move(old, new)


def test_the_table_has_every_state() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(GroupState)


def test_a_group_keeps_the_time_of_its_last_move() -> None:
    group = Group("g", 5)
    group.move_to(GroupState.PREPARING_REBALANCE, 9)
    assert (group.state, group.state_since_ms) == (GroupState.PREPARING_REBALANCE, 9)


def test_a_leader_that_did_not_join_again_leaves_the_lead_to_one_that_did() -> None:
    group = Group("g", 0)
    for name in ("a", "b", "c"):
        group.add(GroupMember(name, name, "c", "/h", 1, 1, (("range", b""),)), "consumer")
    assert group.leader == "a"
    assert not group.elect_leader()
    group.start_joining(group.members["b"], "b's request")
    assert group.elect_leader()
    assert group.leader == "b"


def test_a_member_that_goes_while_it_joins_is_waited_for_no_longer() -> None:
    group = Group("g", 0)
    group.add(GroupMember("a", None, "c", "/h", 1, 1, (("range", b""),)), "consumer")
    group.start_joining(group.members["a"], "a's request")
    group.remove("a")
    assert group.joining_count == 0


def test_the_time_of_the_last_move_is_stored_and_comes_back() -> None:
    group = Group("g", 5)
    group.move_to(GroupState.PREPARING_REBALANCE, 9)
    group.move_to(GroupState.EMPTY, 11)
    assert group.to_store({}).state_timestamp_ms == 11
    group.state_since_ms = None
    assert group.to_store({}).state_timestamp_ms == -1
