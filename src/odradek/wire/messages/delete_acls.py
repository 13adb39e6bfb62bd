"""DeleteAcls, key 31: remove the ACL bindings that match filters. Versions 0 to 3."""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, message, string, structure


@structure
class DeleteAclsFilter:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable_since=0)
    pattern_type_filter: int = int8(since=1, default=3)
    principal_filter: str | None = string(nullable_since=0)
    host_filter: str | None = string(nullable_since=0)
    operation: int = int8()
    permission_type: int = int8()


@message(versions=range(0, 4), flexible=2)
class DeleteAclsRequest:
    """v1 adds the pattern type; v2 is flexible; v3 adds the user resource type."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@structure
class DeleteAclsMatchingAcl:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@structure
class DeleteAclsFilterResult:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@message(versions=range(0, 4), flexible=2)
class DeleteAclsResponse:
    """The removed bindings per filter. v1 adds the pattern type; v2 is flexible."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
