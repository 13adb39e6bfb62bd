"""A member as a machine: every state, every code, in any order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.assignors import (
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    StickyAssignor,
)
from odradek.client.consumer.group.consumer_protocol import read_subscription, write_assignment
from odradek.client.consumer.group.error_actions import (
    ERROR_ACTIONS,
    GroupApi,
    GroupErrorAction,
    error_action,
)
from odradek.client.consumer.group.membership import (
    MAY_FOLLOW,
    Again,
    Fail,
    Follow,
    Generation,
    GiveUp,
    JoinResponse,
    Lead,
    Membership,
    MemberState,
    Take,
)
from odradek.model.errors import ErrorCode, RemoteProtocolViolation
from odradek.model.ids import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
WANTS = frozenset({"t"})
OK = ErrorCode.NONE


def member(*assignors: Assignor, instance_id: str | None = None) -> Membership:
    return Membership("g", instance_id, assignors or (RangeAssignor(),))


def joining(made: Membership, owned: Any = ()) -> Membership:
    made.begin(owned, WANTS)
    made.prepared()
    made.join(owned, WANTS)
    return made


def joined(code: ErrorCode = OK, leader: str = "other", **how: Any) -> JoinResponse:
    how = {"generation": 1, "protocol": "range", "member_id": "me", **how}
    return JoinResponse(code, leader=leader, **how)


def stable(*assignors: Assignor, protocol: str = "range", instance_id: str | None = None) -> Membership:
    made = joining(member(*assignors, instance_id=instance_id))
    made.joined(joined(protocol=protocol), made.generation)
    made.synced(OK, write_assignment(Assignment([T0, T1])), made.generation)
    assert made.state is MemberState.STABLE
    return made


def test_a_follower_joins_syncs_and_takes_what_it_gets() -> None:
    made = joining(member())
    assert made.joined(joined(), made.generation) == Follow()
    assert made.generation == Generation(1, "me", "range")
    taken = made.synced(OK, write_assignment(Assignment([T0], b"x")), made.generation, "range")
    assert isinstance(taken, Take)
    assert (list(taken.assignment.partitions), taken.assignment.user_data) == ([T0], b"x")
    assert not made.needs_join
    assert made.metadata() == ("g", 1, "me", None)


def test_a_leader_sees_all_members_as_they_described_themselves() -> None:
    made = member(CooperativeStickyAssignor())
    joining(made)
    made.joined(joined(protocol="cooperative-sticky", leader="me"), made.generation)
    made.synced(OK, b"", made.generation)
    made.begin([T1, T0], WANTS)
    made.prepared()
    mine = made.join([T1, T0], WANTS)
    answer = joined(
        generation=2,
        protocol="cooperative-sticky",
        leader="me",
        members=[("me", None, mine.protocols[0][1]), ("you", "i", mine.protocols[0][1])],
        skip_assignment=True,
    )
    lead = made.joined(answer, made.generation)
    assert isinstance(lead, Lead)
    assert lead.skip
    assert made.is_leader
    assert [(m.member_id, m.instance_id, m.topics) for m in lead.members] == [
        ("me", None, ("t",)),
        ("you", "i", ("t",)),
    ]
    assert lead.members[0].owned == (T0, T1)
    assert lead.members[0].generation == 1


def test_all_assignors_are_offered_each_with_its_own_words() -> None:
    sticky = StickyAssignor()
    sticky.on_assignment(Assignment([T0]), 4)
    made = member(sticky, RangeAssignor())
    made.begin([], WANTS)
    made.prepared()
    offered = dict(made.join([], WANTS).protocols)
    assert list(offered) == ["sticky", "range"]
    assert read_subscription("me", None, offered["sticky"]).user_data == sticky.user_data(WANTS)
    assert read_subscription("me", None, offered["range"]).user_data is None


def test_the_first_join_gets_an_id_and_comes_back_with_it() -> None:
    made = joining(member())
    refused = made.joined(JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1"), made.generation)
    assert refused == Again()
    assert made.state is MemberState.PREPARED
    assert made.join([], WANTS).member_id == "me-1"


@pytest.mark.parametrize(
    ("assignors", "expected"),
    [((RangeAssignor(),), {T0, T1, U0}), ((CooperativeStickyAssignor(),), {U0})],
)
def test_before_joining_again_eager_members_part_with_all_and_others_with_what_they_do_not_want(
    assignors: tuple[Assignor, ...], expected: set[TopicPartition]
) -> None:
    made = stable(*assignors, protocol=assignors[0].name)
    made.request_rejoin("why not")
    assert made.begin([T0, T1, U0], WANTS) == GiveUp(frozenset(expected), lost=False)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_without_its_generation_a_member_has_lost_everything(code: ErrorCode) -> None:
    made = stable(CooperativeStickyAssignor(), protocol="cooperative-sticky")
    made.heartbeat_answered(code, made.generation)
    assert made.state is MemberState.UNJOINED
    assert made.generation.member_id == ("me" if code is ErrorCode.ILLEGAL_GENERATION else "")
    assert made.begin([T0, T1], WANTS) == GiveUp(frozenset({T0, T1}), lost=True)


def test_cooperative_members_join_again_after_giving_up_for_others() -> None:
    made = stable(CooperativeStickyAssignor(), protocol="cooperative-sticky")
    assert made.changes([T0, T1], [T0]) == ({T1}, set())
    assert made.needs_join
    kept = stable(CooperativeStickyAssignor(), protocol="cooperative-sticky")
    assert kept.changes([T0], [T0, T1]) == (set(), {T1})
    assert not kept.needs_join


def test_a_rebalance_that_is_heard_of_in_a_heartbeat_makes_a_stable_member_join() -> None:
    made = stable()
    assert (
        made.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS, made.generation) is GroupErrorAction.REJOIN
    )
    assert made.needs_join
    made.begin([], WANTS)
    assert made.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS, made.generation) is GroupErrorAction.FINE


def test_answers_to_an_older_generation_change_nothing() -> None:
    made = stable()
    before = made.generation
    assert made.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID, Generation(0, "me")) is GroupErrorAction.FINE
    made.commit_answered(ErrorCode.UNKNOWN_MEMBER_ID, Generation(0, "me"))
    assert (made.state, made.generation) == (MemberState.STABLE, before)
    again = joining(member())
    assert again.joined(joined(), Generation(5, "x")) == Again()
    assert again.synced(OK, b"", Generation(5, "x")) == Again()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ],
)
def test_what_joining_again_cannot_mend_is_told(code: ErrorCode) -> None:
    made = joining(member(instance_id="i"))
    assert made.joined(JoinResponse(code), made.generation) == Fail(GroupApi.JOIN, code)
    assert made.needs_join, "the next poll may try"


def test_a_group_that_agreed_on_an_unknown_assignor_is_refused() -> None:
    made = joining(member())
    fail = Fail(GroupApi.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert made.joined(joined(protocol="other"), made.generation) == fail
    made = joining(member())
    made.joined(joined(), made.generation)
    fail = Fail(GroupApi.SYNC, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert made.synced(OK, b"", made.generation, "other") == fail


def test_a_coordinator_that_moved_is_looked_for_and_one_that_loads_is_waited_for() -> None:
    for code, expected in (
        (ErrorCode.NOT_COORDINATOR, Again(rest=True, rediscover=True)),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Again(rest=True, rediscover=True)),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Again(rest=True)),
    ):
        made = joining(member())
        assert made.joined(JoinResponse(code), made.generation) == expected
        assert made.state is MemberState.PREPARED
        made.join([], WANTS)
        made.joined(joined(), made.generation)
        assert made.synced(code, b"", made.generation) == expected
        assert made.state is MemberState.PREPARED


def test_a_rebalance_during_sync_begins_anew_at_once() -> None:
    made = joining(member())
    made.joined(joined(), made.generation)
    assert made.synced(ErrorCode.REBALANCE_IN_PROGRESS, b"", made.generation) == Again()
    assert made.state is MemberState.PREPARED
    assert made.generation.member_id == "me"


def test_an_assignment_that_cannot_be_read_is_none() -> None:
    made = joining(member())
    made.joined(joined(), made.generation)
    with pytest.raises(RemoteProtocolViolation):
        made.synced(OK, b"\0\0\xff", made.generation)
    made.interrupted()
    assert made.state is MemberState.PREPARED


def test_only_dynamic_members_tell_the_group_that_they_leave() -> None:
    assert stable().leave("bye") == "me"
    assert stable(instance_id="i").leave("bye") is None
    assert member().leave("bye") is None


def test_offsets_are_committed_by_members_with_an_assignment() -> None:
    made = stable()
    assert made.committing_generation() == made.generation
    made.begin([T0], WANTS)
    assert made.committing_generation() == made.generation, "the last commit, before partitions go"
    made.prepared()
    assert made.committing_generation() is None
    assert made.is_rebalancing
    made.leave("bye")
    assert made.committing_generation() is None
    assert not made.is_rebalancing


def test_codes_that_the_table_does_not_know_are_told() -> None:
    for call in GroupApi:
        for code in ErrorCode:
            known = ERROR_ACTIONS[call].get(
                code, GroupErrorAction.FINE if code is OK else GroupErrorAction.FAIL
            )
            assert error_action(call, code) is known


codes = st.sampled_from(
    [OK, *{code for table in ERROR_ACTIONS.values() for code in table}, ErrorCode.FENCED_INSTANCE_ID]
)
steps = st.tuples(
    st.sampled_from(["step", "step", "step", "heartbeat", "commit", "rejoin", "leave", "lost"]), codes
)


@given(st.lists(steps, max_size=40), st.booleans(), st.booleans())
def test_whatever_happens_a_member_keeps_to_its_table_and_can_go_on(
    played: list[tuple[str, ErrorCode]], cooperative: bool, leads: bool
) -> None:
    made = member(CooperativeStickyAssignor() if cooperative else RangeAssignor())
    generation = 0
    for what, code in played:
        before = made.state
        if what == "step":
            generation += 1
            _step(made, code, generation, leads)
        elif what == "heartbeat" and made.generation.id >= 0 and made.state is not MemberState.JOINING:
            made.heartbeat_answered(code, made.generation)
        elif what == "commit" and made.committing_generation():
            made.commit_answered(code, made.generation)
        elif what == "rejoin":
            made.request_rejoin("why not")
        elif what == "leave":
            made.leave("bye")
        elif what == "lost":
            made.interrupted()
        assert made.state is before or made.state in MAY_FOLLOW[before]
        assert (made.state is MemberState.UNJOINED) <= (made.generation.id < 0)
    for _ in range(6):
        generation += 1
        _step(made, OK, generation, leads)
    assert made.generation.id >= 0


def _step(made: Membership, code: ErrorCode, generation: int, leads: bool) -> None:
    name = "range" if made.protocol.value == "eager" else "cooperative-sticky"
    if made.state in (MemberState.UNJOINED, MemberState.STABLE):
        made.begin([T0], WANTS)
    elif made.state is MemberState.PREPARING:
        made.prepared()
    elif made.state is MemberState.PREPARED:
        made.join([T0], WANTS)
    elif made.state is MemberState.JOINING:
        leader = "me" if leads else "you"
        made.joined(joined(code, leader, generation=generation, protocol=name), made.generation)
    else:
        made.synced(code, write_assignment(Assignment([T0])), made.generation, name)
