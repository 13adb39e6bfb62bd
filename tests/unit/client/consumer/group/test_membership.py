"""State machine of a group member: states, error codes, random event sequences."""

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
from odradek.client.consumer.group.consumer_protocol import decode_subscription, encode_assignment
from odradek.client.consumer.group.error_actions import (
    ERROR_ACTIONS,
    GroupApi,
    GroupErrorAction,
    error_action,
)
from odradek.client.consumer.group.membership import (
    VALID_TRANSITIONS,
    AssignmentReceived,
    Generation,
    JoinedAsFollower,
    JoinResponse,
    LeaderElected,
    Membership,
    MemberState,
    RebalanceFailed,
    Rejoin,
    Revocation,
)
from odradek.model.errors import ErrorCode, RemoteProtocolViolation
from odradek.model.ids import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
TOPICS = frozenset({"t"})
OK = ErrorCode.NONE


def member(*assignors: Assignor, instance_id: str | None = None) -> Membership:
    return Membership("g", instance_id, assignors or (RangeAssignor(),))


def joining(membership: Membership, owned: Any = ()) -> Membership:
    membership.prepare_join(owned, TOPICS)
    membership.join_prepared()
    membership.join(owned, TOPICS)
    return membership


def joined(code: ErrorCode = OK, leader: str = "other", **fields: Any) -> JoinResponse:
    fields = {"generation": 1, "protocol": "range", "member_id": "me", **fields}
    return JoinResponse(code, leader=leader, **fields)


def stable(*assignors: Assignor, protocol: str = "range", instance_id: str | None = None) -> Membership:
    membership = joining(member(*assignors, instance_id=instance_id))
    membership.handle_join(joined(protocol=protocol), membership.generation)
    membership.handle_sync(OK, encode_assignment(Assignment([T0, T1])), membership.generation)
    assert membership.state is MemberState.STABLE
    return membership


def test_follower_joins_syncs_and_receives_assignment() -> None:
    membership = joining(member())
    assert membership.handle_join(joined(), membership.generation) == JoinedAsFollower()
    assert membership.generation == Generation(1, "me", "range")
    received = membership.handle_sync(
        OK, encode_assignment(Assignment([T0], b"x")), membership.generation, "range"
    )
    assert isinstance(received, AssignmentReceived)
    assert (list(received.assignment.partitions), received.assignment.user_data) == ([T0], b"x")
    assert not membership.needs_join
    assert membership.metadata() == ("g", 1, "me", None)


def test_leader_receives_all_subscriptions() -> None:
    membership = member(CooperativeStickyAssignor())
    joining(membership)
    membership.handle_join(joined(protocol="cooperative-sticky", leader="me"), membership.generation)
    membership.handle_sync(OK, b"", membership.generation)
    membership.prepare_join([T1, T0], TOPICS)
    membership.join_prepared()
    request = membership.join([T1, T0], TOPICS)
    response = joined(
        generation=2,
        protocol="cooperative-sticky",
        leader="me",
        members=[("me", None, request.protocols[0][1]), ("you", "i", request.protocols[0][1])],
        skip_assignment=True,
    )
    elected = membership.handle_join(response, membership.generation)
    assert isinstance(elected, LeaderElected)
    assert elected.skip
    assert membership.is_leader
    assert [(m.member_id, m.instance_id, m.topics) for m in elected.members] == [
        ("me", None, ("t",)),
        ("you", "i", ("t",)),
    ]
    assert elected.members[0].owned == (T0, T1)
    assert elected.members[0].generation == 1


def test_join_offers_all_assignors_with_user_data() -> None:
    sticky = StickyAssignor()
    sticky.on_assignment(Assignment([T0]), 4)
    membership = member(sticky, RangeAssignor())
    membership.prepare_join([], TOPICS)
    membership.join_prepared()
    offered = dict(membership.join([], TOPICS).protocols)
    assert list(offered) == ["sticky", "range"]
    assert decode_subscription("me", None, offered["sticky"]).user_data == sticky.user_data(TOPICS)
    assert decode_subscription("me", None, offered["range"]).user_data is None


def test_first_join_is_repeated_with_member_id() -> None:
    membership = joining(member())
    outcome = membership.handle_join(
        JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1"), membership.generation
    )
    assert outcome == Rejoin()
    assert membership.state is MemberState.PREPARED
    assert membership.join([], TOPICS).member_id == "me-1"


@pytest.mark.parametrize(
    ("assignors", "expected"),
    [((RangeAssignor(),), {T0, T1, U0}), ((CooperativeStickyAssignor(),), {U0})],
)
def test_revocation_before_rejoin(assignors: tuple[Assignor, ...], expected: set[TopicPartition]) -> None:
    membership = stable(*assignors, protocol=assignors[0].name)
    membership.request_rejoin("test")
    assert membership.prepare_join([T0, T1, U0], TOPICS) == Revocation(frozenset(expected), lost=False)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_lost_generation_loses_partitions(code: ErrorCode) -> None:
    membership = stable(CooperativeStickyAssignor(), protocol="cooperative-sticky")
    membership.handle_heartbeat(code, membership.generation)
    assert membership.state is MemberState.UNJOINED
    assert membership.generation.member_id == ("me" if code is ErrorCode.ILLEGAL_GENERATION else "")
    assert membership.prepare_join([T0, T1], TOPICS) == Revocation(frozenset({T0, T1}), lost=True)


def test_cooperative_member_rejoins_after_revocation() -> None:
    membership = stable(CooperativeStickyAssignor(), protocol="cooperative-sticky")
    assert membership.assignment_changes([T0, T1], [T0]) == ({T1}, set())
    assert membership.needs_join
    kept = stable(CooperativeStickyAssignor(), protocol="cooperative-sticky")
    assert kept.assignment_changes([T0], [T0, T1]) == (set(), {T1})
    assert not kept.needs_join


def test_rebalance_in_heartbeat_makes_stable_member_rejoin() -> None:
    membership = stable()
    assert (
        membership.handle_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, membership.generation)
        is GroupErrorAction.REJOIN
    )
    assert membership.needs_join
    membership.prepare_join([], TOPICS)
    assert (
        membership.handle_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, membership.generation)
        is GroupErrorAction.NONE
    )


def test_responses_to_older_generation_are_ignored() -> None:
    membership = stable()
    before = membership.generation
    assert (
        membership.handle_heartbeat(ErrorCode.UNKNOWN_MEMBER_ID, Generation(0, "me")) is GroupErrorAction.NONE
    )
    membership.handle_commit(ErrorCode.UNKNOWN_MEMBER_ID, Generation(0, "me"))
    assert (membership.state, membership.generation) == (MemberState.STABLE, before)
    membership = joining(member())
    assert membership.handle_join(joined(), Generation(5, "x")) == Rejoin()
    assert membership.handle_sync(OK, b"", Generation(5, "x")) == Rejoin()


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
def test_non_retriable_join_errors_fail(code: ErrorCode) -> None:
    membership = joining(member(instance_id="i"))
    assert membership.handle_join(JoinResponse(code), membership.generation) == RebalanceFailed(
        GroupApi.JOIN, code
    )
    assert membership.needs_join, "the next poll joins again"


def test_unknown_group_protocol_fails_join_and_sync() -> None:
    membership = joining(member())
    failed = RebalanceFailed(GroupApi.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert membership.handle_join(joined(protocol="other"), membership.generation) == failed
    membership = joining(member())
    membership.handle_join(joined(), membership.generation)
    failed = RebalanceFailed(GroupApi.SYNC, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert membership.handle_sync(OK, b"", membership.generation, "other") == failed


def test_join_retries_after_coordinator_errors() -> None:
    for code, expected in (
        (ErrorCode.NOT_COORDINATOR, Rejoin(backoff=True, rediscover=True)),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Rejoin(backoff=True, rediscover=True)),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Rejoin(backoff=True)),
    ):
        membership = joining(member())
        assert membership.handle_join(JoinResponse(code), membership.generation) == expected
        assert membership.state is MemberState.PREPARED
        membership.join([], TOPICS)
        membership.handle_join(joined(), membership.generation)
        assert membership.handle_sync(code, b"", membership.generation) == expected
        assert membership.state is MemberState.PREPARED


def test_rebalance_during_sync_rejoins_without_backoff() -> None:
    membership = joining(member())
    membership.handle_join(joined(), membership.generation)
    assert membership.handle_sync(ErrorCode.REBALANCE_IN_PROGRESS, b"", membership.generation) == Rejoin()
    assert membership.state is MemberState.PREPARED
    assert membership.generation.member_id == "me"


def test_invalid_assignment_is_rejected() -> None:
    membership = joining(member())
    membership.handle_join(joined(), membership.generation)
    with pytest.raises(RemoteProtocolViolation):
        membership.handle_sync(OK, b"\0\0\xff", membership.generation)
    membership.abort_join()
    assert membership.state is MemberState.PREPARED


def test_only_dynamic_members_send_leave_group() -> None:
    assert stable().leave("bye") == "me"
    assert stable(instance_id="i").leave("bye") is None
    assert member().leave("bye") is None


def test_committing_generation_by_state() -> None:
    membership = stable()
    assert membership.committing_generation() == membership.generation
    membership.prepare_join([T0], TOPICS)
    assert membership.committing_generation() == membership.generation, (
        "the last commit before the revocation"
    )
    membership.join_prepared()
    assert membership.committing_generation() is None
    assert membership.is_rebalancing
    membership.leave("bye")
    assert membership.committing_generation() is None
    assert not membership.is_rebalancing


def test_unlisted_error_codes_fail() -> None:
    for api in GroupApi:
        for code in ErrorCode:
            expected = ERROR_ACTIONS[api].get(
                code, GroupErrorAction.NONE if code is OK else GroupErrorAction.FAIL
            )
            assert error_action(api, code) is expected


codes = st.sampled_from(
    [OK, *{code for table in ERROR_ACTIONS.values() for code in table}, ErrorCode.FENCED_INSTANCE_ID]
)
steps = st.tuples(
    st.sampled_from(["step", "step", "step", "heartbeat", "commit", "rejoin", "leave", "lost"]), codes
)


@given(st.lists(steps, max_size=40), st.booleans(), st.booleans())
def test_random_events_keep_member_state_valid(
    events: list[tuple[str, ErrorCode]], cooperative: bool, leads: bool
) -> None:
    membership = member(CooperativeStickyAssignor() if cooperative else RangeAssignor())
    generation = 0
    for event, code in events:
        before = membership.state
        if event == "step":
            generation += 1
            _step(membership, code, generation, leads)
        elif (
            event == "heartbeat"
            and membership.generation.id >= 0
            and membership.state is not MemberState.JOINING
        ):
            membership.handle_heartbeat(code, membership.generation)
        elif event == "commit" and membership.committing_generation():
            membership.handle_commit(code, membership.generation)
        elif event == "rejoin":
            membership.request_rejoin("test")
        elif event == "leave":
            membership.leave("bye")
        elif event == "lost":
            membership.abort_join()
        assert membership.state is before or membership.state in VALID_TRANSITIONS[before]
        assert (membership.state is MemberState.UNJOINED) <= (membership.generation.id < 0)
    for _ in range(6):
        generation += 1
        _step(membership, OK, generation, leads)
    assert membership.generation.id >= 0


def _step(membership: Membership, code: ErrorCode, generation: int, leads: bool) -> None:
    name = "range" if membership.protocol.value == "eager" else "cooperative-sticky"
    if membership.state in (MemberState.UNJOINED, MemberState.STABLE):
        membership.prepare_join([T0], TOPICS)
    elif membership.state is MemberState.PREPARING:
        membership.join_prepared()
    elif membership.state is MemberState.PREPARED:
        membership.join([T0], TOPICS)
    elif membership.state is MemberState.JOINING:
        leader = "me" if leads else "you"
        membership.handle_join(
            joined(code, leader, generation=generation, protocol=name), membership.generation
        )
    else:
        membership.handle_sync(code, encode_assignment(Assignment([T0])), membership.generation, name)
