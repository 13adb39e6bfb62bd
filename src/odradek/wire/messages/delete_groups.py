"""DeleteGroups, key 42: delete empty groups. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, message, string, structure


@message(versions=range(0, 3), flexible=2)
class DeleteGroupsRequest:
    """v2 is flexible."""

    groups_names: list[str] = array(string)


@structure
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@message(versions=range(0, 3), flexible=2)
class DeleteGroupsResponse:
    """v2 is flexible."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
