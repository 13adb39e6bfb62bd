"""DescribeGroups, key 15: state and members of groups. Versions 0 to 5.

The response has an entry per requested group; a group that does not exist is in state Dead.
"""

from __future__ import annotations

from odradek.wire.schema import array, boolean, bytes_, int16, int32, message, string, structure


@message(versions=range(0, 6), flexible=5)
class DescribeGroupsRequest:
    """v3 adds include_authorized_operations; v5 is flexible."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(since=3)


@structure
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable_since=4, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


@structure
class DescribedGroup:
    error_code: int = int16()
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


@message(versions=range(0, 6), flexible=5)
class DescribeGroupsResponse:
    """v1 adds the throttle time, v3 the authorized operations, v4 the static instance ids; v5 is flexible."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
