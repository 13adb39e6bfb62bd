"""FindCoordinator, key 10: the coordinator of a group or transactional id. Versions 0 to 6."""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, message, string, structure


@message(versions=range(0, 7), flexible=3)
class FindCoordinatorRequest:
    """v1 adds the key type (0 group, 1 transaction, 2 share); v3 is flexible; v4 batches
    keys; v5 clients handle TRANSACTION_ABORTABLE; v6 allows share groups.
    """

    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(string, since=4)


@structure
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=4)


@message(versions=range(0, 7), flexible=3)
class FindCoordinatorResponse:
    """One broker (up to v3) or one per key (v4 and later). v1 adds throttle time and message; v3 is
    flexible.
    """

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable_since=1, ignorable=True)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)
