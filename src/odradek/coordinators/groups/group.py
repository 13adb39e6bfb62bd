"""A group: its state, its members and who leads them.

``stored`` is what the log says of the group, and is set by nothing but applied entries; so are those of its
``offsets`` that count. All else is the group as it lives: ahead of the log while a rebalance is under way,
and lost with the broker, as it may be. Methods here keep the books; what is decided when is in ``rebalance``
and in the modules of the commands.

    Empty ──────► PreparingRebalance ──────► CompletingRebalance ──────► Stable
      ▲              │    ▲     ▲                      │                   │
      └── all left ──┘    │     └── a member goes, ────┘                   │
                          └──────── joins anew or is late ─────────────────┘
    Dead from anywhere: deleted, expired, or led by another broker. What was to be deleted and could not be is
    Empty again.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.coordinators.groups.commands import JoinedMember
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.coordinators.groups.event_context import AppendCompletion
from odradek.coordinators.groups.group_member import NOBODY, GroupMember, Protocols, restored
from odradek.coordinators.groups.records import StoredGroup, subscribed_topics
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_TIMESTAMP
from odradek.wire.consumer_protocol import PROTOCOL_TYPE


class GroupState(enum.Enum):
    """Named as clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


def check_move(old: GroupState, new: GroupState) -> None:
    if old not in VALID_PREVIOUS_STATES[new]:
        raise AssertionError(f"a group cannot go from {old.value} to {new.value}")


@dataclass(slots=True)
class InitialDelay:
    """A group without members waits for more than the first one: in rounds, while new ones come and there is
    time left."""

    round_ms: int
    remaining_ms: int
    has_new_member: bool = False


@dataclass(slots=True, eq=False)
class Group:
    name: str
    state_since_ms: int | None
    """Wall clock. None if an old record did not say."""
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, GroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """GroupMember ids by instance."""
    pending: set[str] = field(default_factory=set)
    """Ids handed out with MEMBER_ID_REQUIRED and not yet joined with."""
    unsynced: set[str] = field(default_factory=set)
    """Members that have not asked for their assignment in this generation."""
    joining_count: int = 0
    initial_delay: InitialDelay | None = None
    storing: AppendCompletion | None = None
    """The write of this generation's assignment, while it is under way."""
    stored: StoredGroup | None = None
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    _supporters: Counter[str] = field(default_factory=Counter)
    _subscriptions: tuple[bytes, ...] | None = None
    """What members said when this generation began; None before the first."""

    # GroupState.

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        check_move(self.state, state)
        self.state, self.state_since_ms = state, wall_ms

    def condemn(self) -> None:
        """It goes once the log says so. Until then it neither takes members nor offsets."""
        check_move(self.state, GroupState.DEAD)
        self.state = GroupState.DEAD

    def spare(self) -> None:
        """It had no members, and stays after all, as if nothing had been."""
        self.state = GroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def has_all_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """All get as long as the slowest asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Members.

    def add(self, member: GroupMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance is not None:
            self.static_members[member.instance] = member.member
        if self.leader is None:
            self.leader = member.member
        self.members[member.member] = member
        self._supporters.update(_names(member))
        self.pending.discard(member.member)

    def remove(self, name: str) -> GroupMember | None:
        """Take out a member or a pending one. Whoever waits for it is the caller's to answer, before."""
        self.pending.discard(name)
        self.unsynced.discard(name)
        member = self.members.pop(name, None)
        if member is None:
            return None
        self.stop_joining(member)
        self._supporters.subtract(_names(member))
        if member.instance is not None:
            self.static_members.pop(member.instance, None)
        if self.leader == name:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: GroupMember, name: str) -> None:
        """Another process goes on as this static member, under an id of its own."""
        old = member.member
        del self.members[old]
        member.member = name
        self.members[name] = member
        if member.instance is not None:
            self.static_members[member.instance] = name
        if self.leader == old:
            self.leader = name
        if old in self.unsynced:
            self.unsynced.remove(old)
            self.unsynced.add(name)

    def change(
        self, member: GroupMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._supporters.subtract(_names(member))
        member.protocols = protocols
        self._supporters.update(_names(member))
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def start_joining(self, member: GroupMember, to: Any) -> None:
        """Nobody waits for it yet."""
        self.joining_count += 1
        member.joining = to

    def stop_joining(self, member: GroupMember) -> None:
        self.joining_count -= member.awaits_join
        member.joining = NOBODY

    def identity_error(self, name: str, instance: str | None) -> ErrorCode:
        """Whether a request comes from a current member; a static one must come under its latest id."""
        if instance is not None:
            current = self.static_members.get(instance)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if current == name else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if name in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Protocols.

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member that speaks these would leave the group a protocol that all speak."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == everybody for name, _ in protocols
        )

    def elected_protocol(self) -> str:
        """Every member votes for what it likes best of what all can speak. Of equals the first wins."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_leader(self) -> bool:
        """Make sure that a member leads which has joined. False if there is none."""
        if self.leader is None:
            return False
        if not self.members[self.leader].awaits_join:
            joined = (name for name, member in self.members.items() if member.awaits_join)
            self.leader = next(joined, self.leader)
        return self.members[self.leader].awaits_join

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol = self.elected_protocol() if self.members else None
        self.unsynced.clear()
        self.note_subscriptions()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        protocol = self.protocol or ""
        return tuple(member.joined(protocol) for member in self.members.values())

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that consumers of this generation read; None if nobody can tell."""
        if self.protocol_type != PROTOCOL_TYPE or self._subscriptions is None:
            return None
        topics: set[str] = set()
        for subscription in self._subscriptions:
            found = subscribed_topics(self.protocol_type, subscription)
            if found is None:
                return None
            topics |= found
        return frozenset(topics)

    def note_subscriptions(self) -> None:
        """Subscriptions are kept as they came: few ask what is in them."""
        protocol = self.protocol or ""
        self._subscriptions = tuple(member.metadata(protocol) for member in self.members.values())

    # The log.

    def to_store(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        """The group as it is now; who is given no assignment has an empty one."""
        protocol = self.protocol or ""
        return StoredGroup(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms,
            tuple(
                member.stored(protocol, assignments.get(member.member, b""))
                for member in self.members.values()
            ),
        )


def restored_group(name: str, stored: StoredGroup | None, wall_ms: int) -> Group:
    """The group that a record tells of; without one, a group that only keeps offsets."""
    if stored is None:
        return Group(name, wall_ms)
    since_ms = None if stored.state_timestamp_ms == NO_TIMESTAMP else stored.state_timestamp_ms
    group = Group(name, since_ms, stored=stored, protocol=stored.protocol)
    group.protocol_type, group.generation = stored.protocol_type, stored.generation
    for member in stored.members:
        group.add(restored(member, stored.protocol or ""), stored.protocol_type)
    if stored.leader in group.members:
        group.leader = stored.leader
    if group.members:
        group.state = GroupState.STABLE
    group.note_subscriptions()
    return group


def _names(member: GroupMember) -> set[str]:
    return {name for name, _ in member.protocols}
