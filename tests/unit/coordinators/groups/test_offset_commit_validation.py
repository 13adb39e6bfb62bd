"""Who may commit offsets for a group, by its state."""

from __future__ import annotations

import pytest

from odradek.coordinators.groups.commands import CommitOffsets, SyncGroup
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.membership.heartbeat import commit_refusal
from odradek.coordinators.groups.membership.sync_group import refusal
from odradek.model.errors import ErrorCode

NONE = ErrorCode.NONE
WITH_MEMBERS = [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE]


def group_in(state: GroupState) -> Group:
    """Generation 3 with a dynamic member and a static one."""
    group = Group("g", 0, state=state, generation=3)
    if state is not GroupState.EMPTY:
        for name, instance in (("a", None), ("s", "i")):
            group.add(GroupMember(name, instance, "c", "/h", 1, 1, (("range", b""),)), "consumer")
    return group


def commit(member: str, generation: int, instance: str | None = None, producer_id: int = -1) -> CommitOffsets:
    return CommitOffsets("g", generation, member, instance, {}, producer_id, 0)


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_anybody_may_commit_for_a_group_without_members(producer_id: int) -> None:
    empty = group_in(GroupState.EMPTY)
    assert commit_refusal(empty, commit("", -1, producer_id=producer_id)) is NONE
    assert commit_refusal(empty, commit("whoever", -1, producer_id=producer_id)) is NONE


def test_who_claims_a_generation_of_a_group_without_members_is_no_member() -> None:
    for generation in (0, 3):
        refused = commit_refusal(group_in(GroupState.EMPTY), commit("a", generation))
        assert refused is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_members_of_the_generation_may_commit_unless_an_assignment_is_awaited(state: GroupState) -> None:
    expected = ErrorCode.REBALANCE_IN_PROGRESS if state is GroupState.COMPLETING_REBALANCE else NONE
    assert commit_refusal(group_in(state), commit("a", 3)) is expected
    assert commit_refusal(group_in(state), commit("s", 3, "i")) is expected


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_a_transaction_may_commit_at_any_time_even_if_it_does_not_say_for_whom(state: GroupState) -> None:
    assert commit_refusal(group_in(state), commit("a", 3, producer_id=7)) is NONE
    assert commit_refusal(group_in(state), commit("", -1, producer_id=7)) is NONE


@pytest.mark.parametrize("producer_id", [-1, 7])
@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_zombies_are_fenced(state: GroupState, producer_id: int) -> None:
    group = group_in(state)
    assert commit_refusal(group, commit("a", 2, None, producer_id)) is ErrorCode.ILLEGAL_GENERATION
    assert commit_refusal(group, commit("a", -1, None, producer_id)) is ErrorCode.ILLEGAL_GENERATION
    assert commit_refusal(group, commit("b", 3, None, producer_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_refusal(group, commit("", 3, None, producer_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_refusal(group, commit("s-old", 3, "i", producer_id)) is ErrorCode.FENCED_INSTANCE_ID
    assert commit_refusal(group, commit("a", 3, "j", producer_id)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_outsiders_may_not_commit_while_there_are_members(state: GroupState) -> None:
    assert commit_refusal(group_in(state), commit("", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_nobody_may_commit_for_a_dead_group(producer_id: int) -> None:
    refused = commit_refusal(group_in(GroupState.DEAD), commit("", -1, producer_id=producer_id))
    assert refused is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_transaction_that_names_a_generation_has_to_name_its_member() -> None:
    for generation in (0, 3):
        refused = commit_refusal(group_in(GroupState.STABLE), commit("", generation, producer_id=7))
        assert refused is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_dead_group_sends_those_who_sync_to_look_for_their_coordinator() -> None:
    sync = SyncGroup("g", 3, "a", None, None, None, {})
    assert refusal(group_in(GroupState.DEAD), sync) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(group_in(GroupState.STABLE), sync) is NONE
