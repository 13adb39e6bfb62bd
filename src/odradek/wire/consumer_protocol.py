"""What consumers of a group tell each other through JoinGroup and SyncGroup, which carry it as bytes.

Both begin with an int16 version, 0 to 3; after it come the fields below. A later version only adds fields at
the end, so a reader may take an unknown one for the last it knows, or any for version 0.
"""

from __future__ import annotations

from typing import Final

from odradek.wire.schema import array, bytes_, int32, message, string, structure

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members speak this."""


@structure
class ConsumerProtocolPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions=range(0, 4))
class ConsumerProtocolSubscription:
    """The topics a member wants. v1 adds what it owns, v2 the generation it owns them from, v3 its rack."""

    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable_since=0, default=None)
    owned_partitions: list[ConsumerProtocolPartitions] = array(
        ConsumerProtocolPartitions, since=1, ignorable=True
    )
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable_since=3, default=None, ignorable=True)


@message(versions=range(0, 4))
class ConsumerProtocolAssignment:
    """The partitions a member gets. All versions are alike."""

    assigned_partitions: list[ConsumerProtocolPartitions] = array(ConsumerProtocolPartitions)
    user_data: bytes | None = bytes_(nullable_since=0, default=None)
