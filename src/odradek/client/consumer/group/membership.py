"""State machine of a group member: events go in, actions come out. Pure.

==========  ====================================================  ==========================================
state       meaning                                               next
==========  ====================================================  ==========================================
UNJOINED    not in the group; the assignment is lost              PREPARING
PREPARING   about to join: commits and revokes partitions         PREPARED
PREPARED    has revoked them                                      JOINING
JOINING     JoinGroup is in flight                                SYNCING; PREPARED to retry
SYNCING     SyncGroup is in flight; the generation is known       STABLE; PREPARED to retry
STABLE      has an assignment                                     PREPARING
==========  ====================================================  ==========================================

Every state may go to UNJOINED: by leaving, or when the coordinator does not know the member any more. A
response is ignored if the generation has changed since its request. Partitions owned when the generation is
lost are lost; otherwise they are revoked: all of them before joining (eager), or only unsubscribed ones
before and reassigned ones after (cooperative).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.consumer.assignors import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Member,
    RebalanceProtocol,
    common_protocol,
)
from odradek.client.consumer.group.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from odradek.client.consumer.group.error_actions import GroupApi, GroupErrorAction, error_action
from odradek.client.values import GroupMetadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


class MemberState(enum.Enum):
    UNJOINED = "unjoined"
    PREPARING = "preparing"
    PREPARED = "prepared"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


_S = MemberState
VALID_TRANSITIONS: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    _S.UNJOINED: frozenset({_S.PREPARING, _S.UNJOINED}),
    _S.PREPARING: frozenset({_S.PREPARED, _S.UNJOINED}),
    _S.PREPARED: frozenset({_S.JOINING, _S.UNJOINED}),
    _S.JOINING: frozenset({_S.SYNCING, _S.PREPARED, _S.UNJOINED}),
    _S.SYNCING: frozenset({_S.STABLE, _S.PREPARED, _S.UNJOINED}),
    _S.STABLE: frozenset({_S.PREPARING, _S.UNJOINED}),
}

_COMMITTING: Final = frozenset({_S.PREPARING, _S.STABLE})
_REBALANCING: Final = frozenset({_S.PREPARED, _S.JOINING, _S.SYNCING})


class Generation(NamedTuple):
    """Generation, member id and assignor of a member."""

    id: int = NO_GENERATION
    member_id: str = ""
    protocol: str | None = None


class Revocation(NamedTuple):
    """Partitions to revoke before joining; ``lost`` if the member does not own them any more."""

    partitions: frozenset[TopicPartition]
    lost: bool


class JoinRequest(NamedTuple):
    """Send JoinGroup; ``protocols`` are pairs of assignor name and encoded subscription."""

    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


class JoinResponse(NamedTuple):
    """Parsed JoinGroup response. ``members``, for the leader only: member id, instance id, subscription."""

    code: ErrorCode
    generation: int = NO_GENERATION
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: Sequence[tuple[str, str | None, bytes]] = ()
    skip_assignment: bool = False


class LeaderElected(NamedTuple):
    """Assign partitions with this assignor; ``skip`` if the group keeps its assignment."""

    assignor: Assignor
    members: tuple[Member, ...]
    skip: bool


class JoinedAsFollower(NamedTuple):
    """Send SyncGroup without assignments."""


class AssignmentReceived(NamedTuple):
    """SyncGroup returned an assignment."""

    assignment: Assignment
    assignor: Assignor
    generation: Generation


class Rejoin(NamedTuple):
    """Join again: after the backoff, and after finding the coordinator with ``rediscover``."""

    backoff: bool = False
    rediscover: bool = False


class RebalanceFailed(NamedTuple):
    """A non-retriable error to raise in the application."""

    api: GroupApi
    code: ErrorCode


class AssignmentChanges(NamedTuple):
    """Difference between owned and newly assigned partitions."""

    revoked: frozenset[TopicPartition]
    added: frozenset[TopicPartition]


class Membership:
    """One member; synchronous. The consumer coordinator performs the actions it returns."""

    def __init__(
        self, group_id: str, instance_id: str | None, assignors: Sequence[Assignor], rack: str | None = None
    ) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.protocol = common_protocol(assignors)
        self.state = _S.UNJOINED
        self.generation = Generation()
        self.is_leader = False
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._rack = rack
        self._rejoin_reason: str | None = None

    # Queries.

    @property
    def needs_join(self) -> bool:
        return self.state is not _S.STABLE or self._rejoin_reason is not None

    @property
    def is_rebalancing(self) -> bool:
        """True between revocation and the new assignment, when commits are rejected."""
        return self.state in _REBALANCING

    def committing_generation(self) -> Generation | None:
        """Return the generation to commit offsets with; None if commits are not possible now."""
        return self.generation if self.state in _COMMITTING and self.generation.id >= 0 else None

    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.generation.id, self.generation.member_id, self.instance_id)

    # Events.

    def request_rejoin(self, reason: str) -> None:
        self._rejoin_reason = reason

    def prepare_join(self, owned: Iterable[TopicPartition], topics: frozenset[str]) -> Revocation:
        """Prepare to join; return the partitions to revoke."""
        self._transition(_S.PREPARING)
        partitions = frozenset(owned)
        if self.generation.id < 0:
            return Revocation(partitions, lost=True)
        if self.protocol is RebalanceProtocol.EAGER:
            return Revocation(partitions, lost=False)
        return Revocation(frozenset(tp for tp in partitions if tp.topic not in topics), lost=False)

    def join_prepared(self) -> None:
        """Record that the partitions were revoked."""
        self._transition(_S.PREPARED)
        self.is_leader = False

    def join(self, owned: Iterable[TopicPartition], topics: frozenset[str]) -> JoinRequest:
        reason = self._rejoin_reason or ""
        self._rejoin_reason = None
        self._transition(_S.JOINING)
        member = Member(
            self.generation.member_id,
            tuple(sorted(topics)),
            owned=tuple(sorted(owned)),
            generation=self.generation.id,
            rack=self._rack or None,
        )
        protocols = tuple(
            (name, encode_subscription(member._replace(user_data=assignor.user_data(topics))))
            for name, assignor in self._assignors.items()
        )
        return JoinRequest(self.generation.member_id, protocols, reason)

    def handle_join(
        self, response: JoinResponse, sent_with: Generation
    ) -> LeaderElected | JoinedAsFollower | Rejoin | RebalanceFailed:
        """Handle a JoinGroup response; ``sent_with`` is the generation of the request."""
        if self.state is not _S.JOINING or sent_with != self.generation:
            return Rejoin()
        if response.code is not ErrorCode.NONE:
            if response.code is ErrorCode.MEMBER_ID_REQUIRED:
                self.generation = Generation(NO_GENERATION, response.member_id)
            return self._handle_error(GroupApi.JOIN, response.code)
        assignor = self._assignors.get(response.protocol or "")
        if assignor is None:
            # The group chose its protocol without this member.
            return self._fail(GroupApi.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.generation = Generation(response.generation, response.member_id, assignor.name)
        self._transition(_S.SYNCING)
        if response.member_id != response.leader:
            return JoinedAsFollower()
        self.is_leader = True
        members = tuple(decode_subscription(*member) for member in response.members)
        return LeaderElected(assignor, members, response.skip_assignment)

    def handle_sync(
        self, code: ErrorCode, assignment: bytes, sent_with: Generation, protocol: str | None = None
    ) -> AssignmentReceived | Rejoin | RebalanceFailed:
        """Handle a SyncGroup response; ``protocol`` is the group's assignor, where the version has it."""
        if self.state is not _S.SYNCING or sent_with != self.generation:
            return Rejoin()
        if code is not ErrorCode.NONE:
            return self._handle_error(GroupApi.SYNC, code)
        if protocol is not None and protocol != self.generation.protocol:
            return self._fail(GroupApi.SYNC, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assert self.generation.protocol is not None
        # Decode first: a member that cannot decode its assignment has none.
        decoded = decode_assignment(assignment)
        self._transition(_S.STABLE)
        return AssignmentReceived(decoded, self._assignors[self.generation.protocol], self.generation)

    def assignment_changes(
        self, owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
    ) -> AssignmentChanges:
        """Return the partitions to revoke and to add; a cooperative member that revokes joins again."""
        old, new = frozenset(owned), frozenset(assigned)
        revoked = old - new
        if revoked and self.protocol is RebalanceProtocol.COOPERATIVE:
            self.request_rejoin("partitions were revoked so that others can get them")
        return AssignmentChanges(revoked, new - old)

    def abort_join(self) -> None:
        """Return to PREPARED if JoinGroup or SyncGroup got no response, to join again."""
        if self.state in (_S.JOINING, _S.SYNCING):
            self._transition(_S.PREPARED)

    def handle_heartbeat(self, code: ErrorCode, sent_with: Generation) -> GroupErrorAction:
        if sent_with != self.generation:
            return GroupErrorAction.NONE
        action = error_action(GroupApi.HEARTBEAT, code)
        if action is GroupErrorAction.REJOIN and self.state is not _S.STABLE:
            # It is rejoining already.
            return GroupErrorAction.NONE
        if action is GroupErrorAction.FAIL:
            self._lose_generation(code.name, keep_id=False)
        self._apply(action, code)
        return action

    def handle_commit(self, code: ErrorCode, sent_with: Generation) -> GroupErrorAction:
        action = error_action(GroupApi.COMMIT, code)
        if sent_with == self.generation and sent_with.id >= 0:
            self._apply(action, code)
        return action

    def leave(self, reason: str) -> str | None:
        """Leave the group; return the member id if LeaveGroup must be sent.

        Not for static members: they stay in the group until the session expires.
        """
        member_id = self.generation.member_id
        must_send = self.instance_id is None and member_id and self.state is not _S.UNJOINED
        self._lose_generation(reason, keep_id=False)
        return member_id if must_send else None

    # Errors.

    def _handle_error(self, api: GroupApi, code: ErrorCode) -> Rejoin | RebalanceFailed:
        action = error_action(api, code)
        if action is GroupErrorAction.FAIL:
            return self._fail(api, code)
        self._apply(action, code)
        self.abort_join()
        rediscover = action is GroupErrorAction.REDISCOVER
        return Rejoin(backoff=rediscover or action is GroupErrorAction.RETRY, rediscover=rediscover)

    def _fail(self, api: GroupApi, code: ErrorCode) -> RebalanceFailed:
        self._lose_generation(code.name, keep_id=False)
        return RebalanceFailed(api, code)

    def _apply(self, action: GroupErrorAction, code: ErrorCode) -> None:
        if action is GroupErrorAction.RESET_MEMBER_ID:
            self._lose_generation(code.name, keep_id=False)
        elif action is GroupErrorAction.RESET_GENERATION:
            self._lose_generation(code.name, keep_id=True)
        elif action is GroupErrorAction.REJOIN:
            self.request_rejoin("the group is rebalancing")

    def _lose_generation(self, reason: str, keep_id: bool) -> None:
        self._transition(_S.UNJOINED)
        self.generation = Generation(NO_GENERATION, self.generation.member_id if keep_id else "")
        self.is_leader = False
        self.request_rejoin(f"the generation was lost: {reason}")

    def _transition(self, state: MemberState) -> None:
        assert state in VALID_TRANSITIONS[self.state], f"invalid transition {self.state} -> {state}"
        self.state = state
