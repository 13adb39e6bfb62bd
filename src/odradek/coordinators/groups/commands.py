"""What can be asked of a group, and the answers, free of versions and of the wire.

``generation`` -1 and ``member`` "" stand for none, as in the protocol. ``instance`` is the id of a static
member (KIP-345). A question is answered at once and changes nothing; a command may have to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

NO_MEMBER: Final = ""
NO_GENERATION: Final = -1


class JoinGroup(NamedTuple):
    group: str
    member: str
    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    requires_known_member_id: bool
    """The client understands MEMBER_ID_REQUIRED (JoinGroup 4 and later)."""
    supports_skipping_assignment: bool
    """The client understands that a leader may be told not to assign (JoinGroup 9 and later)."""
    reason: str | None = None


class JoinedMember(NamedTuple):
    member: str
    instance: str | None
    metadata: bytes


class JoinGroupResult(NamedTuple):
    error: ErrorCode
    member: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncGroup(NamedTuple):
    group: str
    generation: int
    member: str
    instance: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class SyncGroupResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    """Answered with an ``ErrorCode``."""

    group: str
    generation: int
    member: str
    instance: str | None


class LeavingMember(NamedTuple):
    member: str
    instance: str | None
    reason: str | None = None


class LeaveGroup(NamedTuple):
    group: str
    leavers: tuple[LeavingMember, ...]


class LeaveGroupResult(NamedTuple):
    """``errors`` has one entry per leaver, in their order; empty if ``error`` holds for all."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


class OffsetAndMetadata(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    """When it goes, if its client said so (OffsetCommit 2 to 4); else the broker's retention says."""


class CommitOffsets(NamedTuple):
    """Answered with ``CommitOffsetsResult``. ``producer_id`` is set for TxnOffsetCommit: such offsets count
    from the end of the transaction on."""

    group: str
    generation: int
    member: str
    instance: str | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    producer_id: int = -1
    producer_epoch: int = -1


class CommitOffsetsResult(NamedTuple):
    errors: Mapping[TopicPartition, ErrorCode]


class DeleteOffsets(NamedTuple):
    """Answered with ``DeleteOffsetsResult``."""

    group: str
    partitions: tuple[TopicPartition, ...]


class DeleteOffsetsResult(NamedTuple):
    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode]


class DeleteGroup(NamedTuple):
    """Answered with an ``ErrorCode``."""

    group: str


class PartitionsDeleted(NamedTuple):
    """These partitions are no more, and neither are offsets in them. Answered with the number of offsets."""

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
    member: str
    instance: str | None
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
    group: str
    protocol_type: str
    state: str
