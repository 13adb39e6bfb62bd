"""Subscriptions and assignments of the consumer protocol, carried as bytes in JoinGroup and SyncGroup.

Both start with an int16 version, 0 to 3, followed by the fields below. A later version only adds fields at
the end, so a reader may read an unknown version as the last it knows, or any version as 0.
"""

from __future__ import annotations

from typing import Final

from odradek.wire.schema import array, bytes_, int32, message, string, structure

PROTOCOL_TYPE: Final = "consumer"
"""Protocol type of consumer groups."""


@structure
class ConsumerProtocolPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions=range(0, 4))
class ConsumerProtocolSubscription:
    """Subscribed topics. v1 adds owned partitions, v2 the generation they were assigned in, v3 the rack."""

    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable_since=0, default=None)
    owned_partitions: list[ConsumerProtocolPartitions] = array(
        ConsumerProtocolPartitions, since=1, ignorable=True
    )
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable_since=3, default=None, ignorable=True)


@message(versions=range(0, 4))
class ConsumerProtocolAssignment:
    """Partitions assigned to a member. All versions are alike."""

    assigned_partitions: list[ConsumerProtocolPartitions] = array(ConsumerProtocolPartitions)
    user_data: bytes | None = bytes_(nullable_since=0, default=None)
