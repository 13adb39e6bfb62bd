"""SyncGroup, key 14: the leader sends assignments, every member receives its own. Versions 0 to 5."""

from __future__ import annotations

from odradek.wire.schema import array, bytes_, int16, int32, message, string, structure


@structure
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = bytes_()


@message(versions=range(0, 6), flexible=4)
class SyncGroupRequest:
    """v3 adds the static instance id; v4 is flexible; v5 adds protocol type and name for
    validation.
    """

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)
    protocol_type: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(versions=range(0, 6), flexible=4)
class SyncGroupResponse:
    """v1 adds the throttle time; v4 is flexible; v5 repeats protocol type and name."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)
    assignment: bytes = bytes_()
