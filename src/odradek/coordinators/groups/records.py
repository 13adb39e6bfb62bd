"""What the partitions of ``__consumer_offsets`` remember: offsets and groups, as values and as bytes.

The bytes are those of Kafka 3.9 (``record_tables`` has the fields): keys of version 1 for offsets and 2 for
groups, offsets of version 3, or 1 where the client said when they expire, groups of version 3. All versions
Kafka 3.9 knows are read. Bytes after the last field are left alone, as Kafka leaves them.

Bytes that are no such record raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. Keys of a kind
nobody here knows, like those of the newer group protocol, are no error: they read as ``None``.
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
    """Names the offset of one group in one partition."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Names a group."""

    group: str


class StoredMember(NamedTuple):
    """A member as it was when its group last became stable. ``subscription`` is what it sent for the protocol
    that was chosen."""

    member: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """A group as it last became stable or empty. ``protocol_type`` is "" for none; ``state_timestamp_ms`` is
    -1 if nobody wrote it down."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


# Keys.


def read_key(raw: bytes) -> OffsetKey | GroupKey | None:
    """What a record is about, or None for a kind that is not known."""
    version = read_version(raw)
    if version in versions_of(OffsetCommitKey):
        key = read_fields(OffsetCommitKey, version, raw)
        return OffsetKey(key.group, key.topic, key.partition)
    if version in versions_of(GroupMetadataKey):
        return GroupKey(read_fields(GroupMetadataKey, version, raw).group)
    return None


def write_offset_key(key: OffsetKey) -> bytes:
    return write_fields(OffsetCommitKey(key.group, key.topic, key.partition), OFFSET_KEY_VERSION)


def write_group_key(key: GroupKey) -> bytes:
    return write_fields(GroupMetadataKey(key.group), GROUP_KEY_VERSION)


# Offsets.


def read_offset(raw: bytes) -> OffsetAndMetadata:
    value = read_fields(OffsetCommitValue, read_version(raw), raw)
    expire_ms = None if value.expire_timestamp == NO_TIMESTAMP else value.expire_timestamp
    return OffsetAndMetadata(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expire_ms
    )


def write_offset(offset: OffsetAndMetadata) -> bytes:
    """An offset that expires loses its leader epoch: no version has room for both."""
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
    """A group of version 0 gave members as long to rejoin as their session lasts."""
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
                member.member,
                member.instance,
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


# Entries.


def offset_entry(
    group: str, partition: TopicPartition, offset: OffsetAndMetadata | None
) -> CoordinatorRecord:
    """The record of an offset; without one, the record that it is no more."""
    key = write_offset_key(OffsetKey(group, partition.topic, partition.partition))
    return CoordinatorRecord(key, None if offset is None else write_offset(offset))


def group_entry(group: str, stored: StoredGroup | None) -> CoordinatorRecord:
    """The record of a group; without one, the record that it is no more."""
    return CoordinatorRecord(
        write_group_key(GroupKey(group)), None if stored is None else write_group(stored)
    )


# What consumers say in their subscriptions.


def subscribed_topics(protocol_type: str, metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's subscription; None if it has another protocol or cannot be read.

    Every version begins like version 0, so the version is passed over, and coming ones are read as well.
    """
    if protocol_type != PROTOCOL_TYPE or len(metadata) < VERSION.size:
        return None
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0)(memoryview(metadata), VERSION.size)
    except RemoteProtocolViolation:
        return None
    return frozenset(subscription.topics)
