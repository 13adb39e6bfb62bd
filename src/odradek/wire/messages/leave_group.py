"""LeaveGroup, key 13: remove members before their sessions expire. Versions 0 to 5."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@structure
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=3, default=None)
    reason: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)


@message(versions=range(0, 6), flexible=4)
class LeaveGroupRequest:
    """One member (up to v2) or several with their instance ids (v3 and later). v4 is flexible; v5 adds the
    reason.
    """

    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


@structure
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=3)
    error_code: int = int16()


@message(versions=range(0, 6), flexible=4)
class LeaveGroupResponse:
    """v1 adds the throttle time; v3 a response per member; v4 is flexible."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
