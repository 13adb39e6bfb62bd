"""A member of a group, as a machine: what happens to it goes in, what is to be done comes out.

==========  ====================================================  ==========================================
state       means                                                 goes on to
==========  ====================================================  ==========================================
UNJOINED    not in the group; what was assigned is lost           PREPARING
PREPARING   about to join: commits, and gives up what it must     PREPARED
PREPARED    has given it up                                       JOINING
JOINING     JoinGroup is on its way                               SYNCING; PREPARED when it is to be repeated
SYNCING     the generation is known, the assignment is awaited    STABLE; PREPARED when it is to be repeated
STABLE      has an assignment                                     PREPARING
==========  ====================================================  ==========================================

From every state a member may get to UNJOINED: by leaving, or when the group does not know it any more. An
answer counts only for the generation in which its question was asked. A member that holds partitions when its
generation is gone has lost them, and says so; otherwise it revokes: all of them before it joins (eager), or
only what it does not want any more before, and what others are to get afterwards (cooperative).
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
    read_assignment,
    read_subscription,
    write_subscription,
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
MAY_FOLLOW: Final[Mapping[MemberState, frozenset[MemberState]]] = {
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
    """Who this member is, and since which rebalance."""

    id: int = NO_GENERATION
    member_id: str = ""
    protocol: str | None = None


class GiveUp(NamedTuple):
    """Partitions to part with before joining; ``lost`` if the group has taken them already."""

    partitions: frozenset[TopicPartition]
    lost: bool


class Join(NamedTuple):
    """Send JoinGroup; ``protocols`` are pairs of an assignor's name and this member's words to it."""

    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


class JoinResponse(NamedTuple):
    """An answer to JoinGroup. ``members`` are their id, instance and words, for the leader alone."""

    code: ErrorCode
    generation: int = NO_GENERATION
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: Sequence[tuple[str, str | None, bytes]] = ()
    skip_assignment: bool = False


class Lead(NamedTuple):
    """Assign partitions with this assignor; ``skip`` if the group's assignment stays as it is."""

    assignor: Assignor
    members: tuple[Member, ...]
    skip: bool


class Follow(NamedTuple):
    """Send SyncGroup without assignments."""


class Take(NamedTuple):
    """An assignment has come."""

    assignment: Assignment
    assignor: Assignor
    generation: Generation


class Again(NamedTuple):
    """Join once more: ``rest`` after a while, ``rediscover`` with the coordinator found anew."""

    rest: bool = False
    rediscover: bool = False


class Fail(NamedTuple):
    """The application must hear of it."""

    call: GroupApi
    code: ErrorCode


class Changes(NamedTuple):
    """What an assignment means for the partitions held until then."""

    revoked: frozenset[TopicPartition]
    added: frozenset[TopicPartition]


class Membership:
    """One member. Synchronous; whoever owns it carries out what it says."""

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

    # What is asked of it.

    @property
    def needs_join(self) -> bool:
        return self.state is not _S.STABLE or self._rejoin_reason is not None

    @property
    def is_rebalancing(self) -> bool:
        """Whether commits must wait for the next poll: between giving up and the new assignment."""
        return self.state in _REBALANCING

    def committing_generation(self) -> Generation | None:
        """In whose name offsets may be committed now."""
        return self.generation if self.state in _COMMITTING and self.generation.id >= 0 else None

    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.generation.id, self.generation.member_id, self.instance_id)

    # What happens to it.

    def request_rejoin(self, reason: str) -> None:
        self._rejoin_reason = reason

    def begin(self, owned: Iterable[TopicPartition], topics: frozenset[str]) -> GiveUp:
        """Get ready to join: what must be given up of what is owned."""
        self._become(_S.PREPARING)
        held = frozenset(owned)
        if self.generation.id < 0:
            return GiveUp(held, lost=True)
        if self.protocol is RebalanceProtocol.EAGER:
            return GiveUp(held, lost=False)
        return GiveUp(frozenset(tp for tp in held if tp.topic not in topics), lost=False)

    def prepared(self) -> None:
        """It is given up."""
        self._become(_S.PREPARED)
        self.is_leader = False

    def join(self, owned: Iterable[TopicPartition], topics: frozenset[str]) -> Join:
        reason = self._rejoin_reason or ""
        self._rejoin_reason = None
        self._become(_S.JOINING)
        me = Member(
            self.generation.member_id,
            tuple(sorted(topics)),
            owned=tuple(sorted(owned)),
            generation=self.generation.id,
            rack=self._rack or None,
        )
        protocols = tuple(
            (name, write_subscription(me._replace(user_data=assignor.user_data(topics))))
            for name, assignor in self._assignors.items()
        )
        return Join(self.generation.member_id, protocols, reason)

    def joined(self, answer: JoinResponse, asked: Generation) -> Lead | Follow | Again | Fail:
        if self.state is not _S.JOINING or asked != self.generation:
            return Again()
        if answer.code is not ErrorCode.NONE:
            if answer.code is ErrorCode.MEMBER_ID_REQUIRED:
                self.generation = Generation(NO_GENERATION, answer.member_id)
            return self._refused(GroupApi.JOIN, answer.code)
        assignor = self._assignors.get(answer.protocol or "")
        if assignor is None:
            # A group without members in common may have chosen before this one came.
            return self._fail(GroupApi.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.generation = Generation(answer.generation, answer.member_id, assignor.name)
        self._become(_S.SYNCING)
        if answer.member_id != answer.leader:
            return Follow()
        self.is_leader = True
        members = tuple(read_subscription(*member) for member in answer.members)
        return Lead(assignor, members, answer.skip_assignment)

    def synced(
        self, code: ErrorCode, assignment: bytes, asked: Generation, protocol: str | None = None
    ) -> Take | Again | Fail:
        """``protocol`` is the assignor that the group has agreed on, where the answer says it."""
        if self.state is not _S.SYNCING or asked != self.generation:
            return Again()
        if code is not ErrorCode.NONE:
            return self._refused(GroupApi.SYNC, code)
        if protocol is not None and protocol != self.generation.protocol:
            return self._fail(GroupApi.SYNC, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assert self.generation.protocol is not None
        # Read first: a member that cannot read its assignment has none.
        read = read_assignment(assignment)
        self._become(_S.STABLE)
        return Take(read, self._assignors[self.generation.protocol], self.generation)

    def changes(self, owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> Changes:
        """What to revoke and what to add; one that revokes joins again, so that others get it."""
        held, given = frozenset(owned), frozenset(assigned)
        revoked = held - given
        if revoked and self.protocol is RebalanceProtocol.COOPERATIVE:
            self.request_rejoin("partitions were given up that others are to get")
        return Changes(revoked, given - held)

    def interrupted(self) -> None:
        """No answer came, or nothing could be asked: join once more."""
        if self.state in (_S.JOINING, _S.SYNCING):
            self._become(_S.PREPARED)

    def heartbeat_answered(self, code: ErrorCode, asked: Generation) -> GroupErrorAction:
        if asked != self.generation:
            return GroupErrorAction.FINE
        judged = error_action(GroupApi.HEARTBEAT, code)
        if judged is GroupErrorAction.REJOIN and self.state is not _S.STABLE:
            # It is about to do so anyway.
            return GroupErrorAction.FINE
        if judged is GroupErrorAction.FAIL:
            self._lose(code.name, keep_id=False)
        self._apply(judged, code)
        return judged

    def commit_answered(self, code: ErrorCode, asked: Generation) -> GroupErrorAction:
        judged = error_action(GroupApi.COMMIT, code)
        if asked == self.generation and asked.id >= 0:
            self._apply(judged, code)
        return judged

    def leave(self, reason: str) -> str | None:
        """Out of the group; gives the member id if the group is to be told.

        Static members are not: they keep their place for as long as a session lasts.
        """
        member_id = self.generation.member_id
        told = self.instance_id is None and member_id and self.state is not _S.UNJOINED
        self._lose(reason, keep_id=False)
        return member_id if told else None

    # What follows.

    def _refused(self, call: GroupApi, code: ErrorCode) -> Again | Fail:
        judged = error_action(call, code)
        if judged is GroupErrorAction.FAIL:
            return self._fail(call, code)
        self._apply(judged, code)
        self.interrupted()
        return Again(
            rest=judged in (GroupErrorAction.RETRY, GroupErrorAction.REDISCOVER),
            rediscover=judged is GroupErrorAction.REDISCOVER,
        )

    def _fail(self, call: GroupApi, code: ErrorCode) -> Fail:
        self._lose(code.name, keep_id=False)
        return Fail(call, code)

    def _apply(self, judged: GroupErrorAction, code: ErrorCode) -> None:
        if judged is GroupErrorAction.FORGET:
            self._lose(code.name, keep_id=False)
        elif judged is GroupErrorAction.RESTART:
            self._lose(code.name, keep_id=True)
        elif judged is GroupErrorAction.REJOIN:
            self.request_rejoin("the group is rebalancing")

    def _lose(self, reason: str, keep_id: bool) -> None:
        self._become(_S.UNJOINED)
        self.generation = Generation(NO_GENERATION, self.generation.member_id if keep_id else "")
        self.is_leader = False
        self.request_rejoin(f"the generation was lost: {reason}")

    def _become(self, state: MemberState) -> None:
        assert state in MAY_FOLLOW[self.state], f"a member that is {self.state.value} cannot be {state.value}"
        self.state = state
