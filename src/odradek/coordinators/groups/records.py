"""Records of ``__consumer_offsets``: offsets and groups, as values and as bytes.

The bytes are those of Kafka 3.9 (``record_schemas`` has the fields): keys of version 1 for offsets and 2 for
groups, offsets of version 3, or 1 with an expiration time, groups of version 3. All versions known to Kafka
3.9 are read. Bytes after the last field are ignored, as in Kafka.

Malformed records raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. A key of an unknown type, such
as those of the consumer group protocol (KIP-848), is not an error and reads as ``None``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.groups.commands import OffsetAndMetadata
from odradek.coordinators.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupMetadataValueMember,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.coordinators.record_serde import (
    VERSION,
    read_fields,
    read_version,
    versions_of,
    write_fields,
)
from odradek.model.errors import RemoteProtocolViolation
from odradek.model.ids import NO_TIMESTAMP, TopicPartition
from odradek.wire.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from odradek.wire.message_codecs import decoder

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
OFFSET_VERSION: Final = 3
EXPIRING_OFFSET_VERSION: Final = 1
GROUP_VERSION: Final = 3

_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1


class OffsetKey(NamedTuple):
    """Key of a group's offset in a partition."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Key of a group."""

    group_id: str


class StoredMember(NamedTuple):
    """A member of a stored group. ``subscription`` is its metadata for the group's protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """A group when it last became Stable or Empty. ``protocol_type`` is "" for none; ``state_timestamp_ms``
    is -1 if unknown."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


# Keys.


def read_key(raw: bytes) -> OffsetKey | GroupKey | None:
    """Parse a key; return None if its type is unknown."""
    version = read_version(raw)
    if version in versions_of(OffsetCommitKey):
        key = read_fields(OffsetCommitKey, version, raw)
        return OffsetKey(key.group, key.topic, key.partition)
    if version in versions_of(GroupMetadataKey):
        return GroupKey(read_fields(GroupMetadataKey, version, raw).group)
    return None


def write_offset_key(key: OffsetKey) -> bytes:
    return write_fields(OffsetCommitKey(key.group_id, key.topic, key.partition), OFFSET_KEY_VERSION)


def write_group_key(key: GroupKey) -> bytes:
    return write_fields(GroupMetadataKey(key.group_id), GROUP_KEY_VERSION)


# Offsets.


def read_offset(raw: bytes) -> OffsetAndMetadata:
    value = read_fields(OffsetCommitValue, read_version(raw), raw)
    expire_ms = None if value.expire_timestamp == NO_TIMESTAMP else value.expire_timestamp
    return OffsetAndMetadata(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expire_ms
    )


def write_offset(offset: OffsetAndMetadata) -> bytes:
    """Serialize an offset. One with an expiration time loses its leader epoch: no version has both."""
    value = OffsetCommitValue(offset.offset, offset.leader_epoch, offset.metadata, offset.commit_ms)
    if offset.expire_ms is None:
        return write_fields(value, OFFSET_VERSION)
    value.expire_timestamp = offset.expire_ms
    return write_fields(value, EXPIRING_OFFSET_VERSION)


# Groups.


def read_group(raw: bytes) -> StoredGroup:
    version = read_version(raw)
    value = read_fields(GroupMetadataValue, version, raw)
    return StoredGroup(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        tuple(_stored_member(member, version) for member in value.members),
    )


def _stored_member(member: GroupMetadataValueMember, version: int) -> StoredMember:
    """Convert a member. In version 0 the session timeout is also the rebalance timeout."""
    has_rebalance_timeout = version >= _FIRST_WITH_REBALANCE_TIMEOUT
    return StoredMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout if has_rebalance_timeout else member.session_timeout,
        member.session_timeout,
        member.subscription,
        member.assignment,
    )


def write_group(group: StoredGroup) -> bytes:
    value = GroupMetadataValue(
        group.protocol_type,
        group.generation,
        group.protocol,
        group.leader,
        group.state_timestamp_ms,
        [
            GroupMetadataValueMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in group.members
        ],
    )
    return write_fields(value, GROUP_VERSION)


# Records.


def offset_record(
    group_id: str, partition: TopicPartition, offset: OffsetAndMetadata | None
) -> CoordinatorRecord:
    """Return the record of an offset; a tombstone for None."""
    key = write_offset_key(OffsetKey(group_id, partition.topic, partition.partition))
    return CoordinatorRecord(key, None if offset is None else write_offset(offset))


def group_record(group_id: str, stored: StoredGroup | None) -> CoordinatorRecord:
    """Return the record of a group; a tombstone for None."""
    key = write_group_key(GroupKey(group_id))
    return CoordinatorRecord(key, None if stored is None else write_group(stored))


# Subscriptions of consumers.


def subscribed_topics(protocol_type: str, metadata: bytes) -> frozenset[str] | None:
    """Return the topics in a member's subscription; None for another protocol type or malformed metadata.

    Every version starts with the fields of version 0, so the version is ignored and future versions are read.
    """
    if protocol_type != PROTOCOL_TYPE or len(metadata) < VERSION.size:
        return None
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0)(memoryview(metadata), VERSION.size)
    except RemoteProtocolViolation:
        return None
    return frozenset(subscription.topics)
