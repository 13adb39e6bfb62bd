"""JoinGroup, key 11: join the next generation of a group. Versions 0 to 9.

From version 4 on, a first join without a member id gets MEMBER_ID_REQUIRED and an id to rejoin with, so
that a client that disappears leaves no member behind.
"""

from __future__ import annotations

from odradek.wire.schema import array, boolean, bytes_, int16, int32, message, string, structure


@structure
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = bytes_()


@message(versions=range(0, 10), flexible=6)
class JoinGroupRequest:
    """The member, its timeouts and its supported protocols.

    v1 adds the rebalance timeout (before v1 the session timeout is used for both); v5 the static instance
    id; v6 is flexible; v8 adds the reason for joining.
    """

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=5, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable_since=8, default=None, ignorable=True)


@structure
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=5, default=None, ignorable=True)
    metadata: bytes = bytes_()


@message(versions=range(0, 10), flexible=6)
class JoinGroupResponse:
    """The generation; for the leader also the members.

    v2 adds the throttle time; v5 the instance ids; v6 is flexible; v7 the protocol type, and the
    protocol's name may be null; v9 adds skip_assignment.
    """

    throttle_time_ms: int = int32(since=2, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable_since=7, default=None, ignorable=True)
    protocol_name: str | None = string(nullable_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
