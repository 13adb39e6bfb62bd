"""Commands to a group and their results, independent of protocol versions and of the wire.

As in the protocol, ``generation`` -1 and ``member_id`` "" mean none. ``instance_id`` is the group instance id
of a static member (KIP-345).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

NO_MEMBER: Final = ""
NO_GENERATION: Final = -1


class JoinGroup(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    requires_known_member_id: bool
    """The client handles MEMBER_ID_REQUIRED (JoinGroup 4 and later)."""
    supports_skipping_assignment: bool
    """The client handles ``skip_assignment`` (JoinGroup 9 and later)."""
    reason: str | None = None


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinGroupResult(NamedTuple):
    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncGroup(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class SyncGroupResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    """The result is an ``ErrorCode``."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None
    reason: str | None = None


class LeaveGroup(NamedTuple):
    group_id: str
    members: tuple[LeavingMember, ...]


class LeaveGroupResult(NamedTuple):
    """``errors`` has one entry per leaving member, in order; empty if ``error`` applies to all."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


class OffsetAndMetadata(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    """Expiration time set by the client (OffsetCommit 2 to 4); None applies the broker's retention."""


class CommitOffsets(NamedTuple):
    """The result is a ``CommitOffsetsResult``. ``producer_id`` is set for TxnOffsetCommit: such offsets take
    effect when the transaction is committed."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    producer_id: int = -1
    producer_epoch: int = -1


class CommitOffsetsResult(NamedTuple):
    errors: Mapping[TopicPartition, ErrorCode]


class DeleteOffsets(NamedTuple):
    """The result is a ``DeleteOffsetsResult``."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class DeleteOffsetsResult(NamedTuple):
    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode]


class DeleteGroup(NamedTuple):
    """The result is an ``ErrorCode``."""

    group_id: str


class PartitionsDeleted(NamedTuple):
    """Remove the offsets of deleted partitions from all groups. The result is the number of offsets."""

    partitions: tuple[TopicPartition, ...]


Command = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | DeleteOffsets
    | DeleteGroup
    | PartitionsDeleted
)


class FetchedOffset(NamedTuple):
    error: ErrorCode
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


class MemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    error: ErrorCode
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
