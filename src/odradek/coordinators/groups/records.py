"""Records of ``__consumer_offsets``: offsets and groups, as values and as bytes.

The bytes are those of Kafka 3.9, and the schemas are named as in Kafka's message definitions: a key or value
is an int16 version followed by the fields. The version of a key determines its type: 0 and 1 an offset, 2 a
group. Values have their own versions; version 4 is flexible and not written yet. Written are keys of version
1 for offsets and 2 for groups, offsets of version 3, or 1 with an expiration time, and groups of version 3.
All versions known to Kafka 3.9 are read. Bytes after the last field are ignored, as in Kafka.

Every commit writes offsets, for many partitions at once. Their keys and values are therefore packed here; the
schemas give the same bytes, and raise the error for what does not fit into them.

Malformed records raise ``BrokerError`` with CORRUPT_MESSAGE, and nothing else. A key of an unknown type, such
as those of the consumer group protocol (KIP-848), is not an error and reads as ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.groups.commands import OffsetAndMetadata
from odradek.coordinators.record_serde import VERSION, read_fields, read_version, versions_of, write_fields
from odradek.model.errors import RemoteProtocolViolation
from odradek.model.ids import NO_TIMESTAMP, TopicPartition
from odradek.wire.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from odradek.wire.message_codecs import decoder
from odradek.wire.primitives import STRING_BYTES_MAX
from odradek.wire.schema import array, bytes_, int32, int64, message, string, structure


@message(versions=range(0, 2))
class OffsetCommitKey:
    """Both versions have the same fields."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(versions=range(2, 3))
class GroupMetadataKey:
    group: str = string()


@message(versions=range(0, 5), flexible=4)
class OffsetCommitValue:
    """Only version 1 has an expiration time; version 3 adds the leader epoch."""

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1, ignorable=True)


@structure
class GroupMetadataValueMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


@message(versions=range(0, 5), flexible=4)
class GroupMetadataValue:
    """Version 1 adds rebalance timeouts, 2 the time of the group's state, 3 static members."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable_since=0)
    leader: str | None = string(nullable_since=0)
    current_state_timestamp: int = int64(since=2, default=-1, ignorable=True)
    members: list[GroupMetadataValueMember] = array(GroupMetadataValueMember)


OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
OFFSET_VERSION: Final = 3
EXPIRING_OFFSET_VERSION: Final = 1
GROUP_VERSION: Final = 3

_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1

_KEY_START: Final = Struct(">hh")
"""Version, and length of the group id."""
_STRING_LENGTH: Final = Struct(">h")
_KEY_PARTITION: Final = Struct(">i")
_VALUE_START: Final = Struct(">hqih")
"""Version, offset, leader epoch, and length of the metadata."""
_VALUE_END: Final = Struct(">q")
"""Timestamp of the commit."""

_tuple: Final = tuple.__new__  # half the time of a named tuple's own constructor


class OffsetKey(NamedTuple):
    """Key of a group's offset in a partition."""

    group_id: str
    topic: str
    partition: int


class StoredOffsets(NamedTuple):
    """Offsets of a group, equal to those that their records are read as."""

    group_id: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class OffsetRecords(NamedTuple):
    """Records of one commit, and their content; None if they are not read as what was written."""

    records: list[CoordinatorRecord]
    stored: StoredOffsets | None


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
    return write_offset_key_start(key.group_id, key.topic) + _KEY_PARTITION.pack(key.partition)


def write_offset_key_start(group_id: str, topic: str) -> bytes:
    """Serialize what the keys of all partitions of a topic start with."""
    group, name = group_id.encode(), topic.encode()
    if len(group) > STRING_BYTES_MAX or len(name) > STRING_BYTES_MAX:
        return write_fields(OffsetCommitKey(group_id, topic, 0), OFFSET_KEY_VERSION)  # raises
    return b"".join(
        (_KEY_START.pack(OFFSET_KEY_VERSION, len(group)), group, _STRING_LENGTH.pack(len(name)), name)
    )


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
    position, leader_epoch, metadata, commit_ms, expire_ms = offset
    text = metadata.encode()
    if expire_ms is None and len(text) <= STRING_BYTES_MAX:
        start = _VALUE_START.pack(OFFSET_VERSION, position, leader_epoch, len(text))
        return start + text + _VALUE_END.pack(commit_ms)
    value = OffsetCommitValue(position, leader_epoch, metadata, commit_ms)
    if expire_ms is None:
        return write_fields(value, OFFSET_VERSION)
    value.expire_timestamp = expire_ms
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


def offset_records(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetRecords:
    """Return the records of offsets, in order."""
    records: list[CoordinatorRecord] = []
    expires = False
    key_topic: str | None = None
    key_start = b""
    for topic_partition, offset in offsets.items():
        topic, partition = topic_partition
        if topic != key_topic:
            key_topic, key_start = topic, write_offset_key_start(group_id, topic)
        key = key_start + _KEY_PARTITION.pack(partition)
        records.append(_tuple(CoordinatorRecord, (key, write_offset(offset))))
        expires = expires or offset[4] is not None
    return OffsetRecords(records, None if expires else StoredOffsets(group_id, offsets))


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
