"""Heartbeat, key 12: keep a group member's session alive. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import int16, int32, message, string


@message(versions=range(0, 5), flexible=4)
class HeartbeatRequest:
    """v3 adds the static instance id; v4 is flexible."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=3, default=None)


@message(versions=range(0, 5), flexible=4)
class HeartbeatResponse:
    """v1 adds the throttle time; v4 is flexible."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
