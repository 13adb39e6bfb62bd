"""A group: its state, its members and its leader (Kafka's GroupMetadata).

``stored`` is the group as last written to the log and is only set by replayed records, as are the committed
``offsets``. Everything else is the live group, which is ahead of the log during a rebalance and may be lost
with the broker. Methods here maintain the state; decisions are made in ``membership`` and in the modules of
the commands.

    Empty ──────► PreparingRebalance ──────► CompletingRebalance ──────► Stable
      ▲              │    ▲     ▲                      │                   │
      └── all left ──┘    │     └── a member leaves, ──┘                   │
                          └──────── rejoins or times out ──────────────────┘
    Dead from any state: deleted, expired, or moved to another broker. A group whose deletion fails becomes
    Empty again.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.coordinators.groups.commands import JoinedMember
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.coordinators.groups.event_context import AppendCompletion
from odradek.coordinators.groups.group_member import NO_REQUEST, GroupMember, Protocols, restore_member
from odradek.coordinators.groups.records import StoredGroup, subscribed_topics
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_TIMESTAMP
from odradek.wire.consumer_protocol import PROTOCOL_TYPE


class GroupState(enum.Enum):
    """Values are the names in DescribeGroups and ListGroups."""

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


def check_transition(old: GroupState, new: GroupState) -> None:
    if old not in VALID_PREVIOUS_STATES[new]:
        raise AssertionError(f"a group cannot go from {old.value} to {new.value}")


@dataclass(slots=True)
class InitialDelay:
    """Delay of the first rebalance of an empty group (``group.initial.rebalance.delay.ms``). It is repeated
    while new members join and time remains."""

    round_ms: int
    remaining_ms: int
    has_new_member: bool = False


@dataclass(slots=True, eq=False)
class Group:
    group_id: str
    state_since_ms: int | None
    """Wall clock. None if the record, of an old version, does not have it."""
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, GroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member ids by group instance id."""
    pending_members: set[str] = field(default_factory=set)
    """Member ids returned with MEMBER_ID_REQUIRED that have not joined yet."""
    pending_sync_members: set[str] = field(default_factory=set)
    """Members that have not sent SyncGroup in this generation."""
    joining_count: int = 0
    initial_delay: InitialDelay | None = None
    pending_assignment: AppendCompletion | None = None
    """The append of this generation's assignment, while it is pending."""
    stored: StoredGroup | None = None
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    _supported_protocols: Counter[str] = field(default_factory=Counter)
    """Number of members that support each protocol."""
    _subscriptions: tuple[bytes, ...] | None = None
    """Member metadata when this generation began; None before the first."""

    # State.

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        check_transition(self.state, state)
        self.state, self.state_since_ms = state, wall_ms

    def begin_deletion(self) -> None:
        """Become Dead until the deletion is committed: the group accepts neither members nor offsets."""
        check_transition(self.state, GroupState.DEAD)
        self.state = GroupState.DEAD

    def cancel_deletion(self) -> None:
        """Become Empty again, as before ``begin_deletion``: only groups without members are deleted."""
        self.state = GroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def has_all_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Members.

    def add(self, member: GroupMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._supported_protocols.update(_protocol_names(member))
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> GroupMember | None:
        """Remove a member or a pending member. The caller replies to its pending requests before."""
        self.pending_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.stop_joining(member)
        self._supported_protocols.subtract(_protocol_names(member))
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_member_id(self, member: GroupMember, member_id: str) -> None:
        """Give a static member the member id of the process that replaces it."""
        old_member_id = member.member_id
        del self.members[old_member_id]
        member.member_id = member_id
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id
        if self.leader == old_member_id:
            self.leader = member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_member_id)
            self.pending_sync_members.add(member_id)

    def update_member(
        self, member: GroupMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._supported_protocols.subtract(_protocol_names(member))
        member.protocols = protocols
        self._supported_protocols.update(_protocol_names(member))
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def start_joining(self, member: GroupMember, to: object) -> None:
        """Set the pending JoinGroup request of a member that has none."""
        self.joining_count += 1
        member.pending_join = to

    def stop_joining(self, member: GroupMember) -> None:
        self.joining_count -= member.awaits_join
        member.pending_join = NO_REQUEST

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE for a current member; a static member must use its latest member id."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Protocols.

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols has one in common with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supported_protocols[name] == count for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes. Each member votes for its most preferred protocol among
        those that all support; of equal candidates the first wins."""
        candidates = {name for name, count in self._supported_protocols.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_leader(self) -> bool:
        """Elect a leader among the members that have joined. Return False if there is none."""
        if self.leader is None:
            return False
        if not self.members[self.leader].awaits_join:
            joined = (member_id for member_id, member in self.members.items() if member.awaits_join)
            self.leader = next(joined, self.leader)
        return self.members[self.leader].awaits_join

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.pending_sync_members.clear()
        self.update_subscriptions()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        protocol = self.protocol or ""
        return tuple(member.to_joined_member(protocol) for member in self.members.values())

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics subscribed to in this generation; None if they are unknown."""
        if self.protocol_type != PROTOCOL_TYPE or self._subscriptions is None:
            return None
        topics: set[str] = set()
        for subscription in self._subscriptions:
            member_topics = subscribed_topics(self.protocol_type, subscription)
            if member_topics is None:
                return None
            topics |= member_topics
        return frozenset(topics)

    def update_subscriptions(self) -> None:
        """Keep the members' metadata undecoded: it is rarely needed."""
        protocol = self.protocol or ""
        self._subscriptions = tuple(member.metadata(protocol) for member in self.members.values())


def stored_group(group: Group, assignments: Mapping[str, bytes]) -> StoredGroup:
    """Return a group for its record; members without an assignment get an empty one."""
    protocol = group.protocol or ""
    return StoredGroup(
        group.protocol_type,
        group.generation,
        group.protocol,
        group.leader,
        NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms,
        tuple(
            member.to_stored(protocol, assignments.get(member.member_id, b""))
            for member in group.members.values()
        ),
    )


def restore_group(group_id: str, stored: StoredGroup | None, wall_ms: int) -> Group:
    """Create a group from its record; without one, a group that only has offsets."""
    if stored is None:
        return Group(group_id, wall_ms)
    since_ms = None if stored.state_timestamp_ms == NO_TIMESTAMP else stored.state_timestamp_ms
    group = Group(group_id, since_ms, stored=stored, protocol=stored.protocol)
    group.protocol_type, group.generation = stored.protocol_type, stored.generation
    for member in stored.members:
        group.add(restore_member(member, stored.protocol or ""), stored.protocol_type)
    if stored.leader in group.members:
        group.leader = stored.leader
    if group.members:
        group.state = GroupState.STABLE
    group.update_subscriptions()
    return group


def _protocol_names(member: GroupMember) -> set[str]:
    return {name for name, _ in member.protocols}
