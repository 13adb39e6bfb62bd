"""Schemas of the records in ``__consumer_offsets``, named as in Kafka's message definitions.

A key or value is an int16 version followed by the fields. The version of a key determines its type: 0 and 1
an offset, 2 a group. Values have their own versions; version 4 is flexible and not written yet.
"""

from __future__ import annotations

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
