"""Validation of offset commits by state of the group."""

from __future__ import annotations

import pytest

from odradek.coordinators.groups.commands import CommitOffsets, SyncGroup
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.membership.sync_group import validate_sync
from odradek.coordinators.groups.offset_commit import validate_commit
from odradek.model.errors import ErrorCode

NONE = ErrorCode.NONE
WITH_MEMBERS = [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE]


def group_in(state: GroupState) -> Group:
    """Return a group in generation 3 with a dynamic member and a static one."""
    group = Group("g", 0, state=state, generation=3)
    if state is not GroupState.EMPTY:
        for member_id, instance_id in (("a", None), ("s", "i")):
            group.add(GroupMember(member_id, instance_id, "c", "/h", 1, 1, (("range", b""),)), "consumer")
    return group


def commit(
    member_id: str, generation: int, instance_id: str | None = None, producer_id: int = -1
) -> CommitOffsets:
    return CommitOffsets("g", generation, member_id, instance_id, {}, producer_id, 0)


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_any_client_may_commit_for_an_empty_group(producer_id: int) -> None:
    empty = group_in(GroupState.EMPTY)
    assert validate_commit(empty, commit("", -1, producer_id=producer_id)) is NONE
    assert validate_commit(empty, commit("unknown", -1, producer_id=producer_id)) is NONE


def test_commit_with_generation_is_rejected_for_an_empty_group() -> None:
    for generation in (0, 3):
        code = validate_commit(group_in(GroupState.EMPTY), commit("a", generation))
        assert code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_current_members_may_commit_except_while_completing_a_rebalance(state: GroupState) -> None:
    expected = ErrorCode.REBALANCE_IN_PROGRESS if state is GroupState.COMPLETING_REBALANCE else NONE
    assert validate_commit(group_in(state), commit("a", 3)) is expected
    assert validate_commit(group_in(state), commit("s", 3, "i")) is expected


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_transactional_commit_without_member_id_is_accepted_in_any_state(state: GroupState) -> None:
    assert validate_commit(group_in(state), commit("a", 3, producer_id=7)) is NONE
    assert validate_commit(group_in(state), commit("", -1, producer_id=7)) is NONE


@pytest.mark.parametrize("producer_id", [-1, 7])
@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_commit_of_an_old_member_is_fenced(state: GroupState, producer_id: int) -> None:
    group = group_in(state)
    assert validate_commit(group, commit("a", 2, None, producer_id)) is ErrorCode.ILLEGAL_GENERATION
    assert validate_commit(group, commit("a", -1, None, producer_id)) is ErrorCode.ILLEGAL_GENERATION
    assert validate_commit(group, commit("b", 3, None, producer_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert validate_commit(group, commit("", 3, None, producer_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert validate_commit(group, commit("s-old", 3, "i", producer_id)) is ErrorCode.FENCED_INSTANCE_ID
    assert validate_commit(group, commit("a", 3, "j", producer_id)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_commit_without_member_id_is_rejected_for_a_group_with_members(state: GroupState) -> None:
    assert validate_commit(group_in(state), commit("", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_commit_is_rejected_for_a_dead_group(producer_id: int) -> None:
    code = validate_commit(group_in(GroupState.DEAD), commit("", -1, producer_id=producer_id))
    assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_transactional_commit_with_generation_requires_a_member_id() -> None:
    for generation in (0, 3):
        code = validate_commit(group_in(GroupState.STABLE), commit("", generation, producer_id=7))
        assert code is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_is_rejected_for_a_dead_group() -> None:
    sync = SyncGroup("g", 3, "a", None, None, None, {})
    assert validate_sync(group_in(GroupState.DEAD), sync) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert validate_sync(group_in(GroupState.STABLE), sync) is NONE
