"""ListGroups, key 16: the groups this broker coordinates. Versions 0 to 5."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@message(versions=range(0, 6), flexible=3)
class ListGroupsRequest:
    """v3 is flexible; v4 adds the states filter, v5 the types filter."""

    states_filter: list[str] = array(string, since=4)
    types_filter: list[str] = array(string, since=5)


@structure
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4, ignorable=True)
    group_type: str = string(since=5, ignorable=True)


@message(versions=range(0, 6), flexible=3)
class ListGroupsResponse:
    """v1 adds the throttle time; v3 is flexible; v4 adds each group's state, v5 its type."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
