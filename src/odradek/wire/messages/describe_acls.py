"""DescribeAcls, key 29: the ACL bindings that match a filter. Versions 0 to 3."""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, message, string, structure


@message(versions=range(0, 4), flexible=2)
class DescribeAclsRequest:
    """The filter. v1 adds the pattern type; v2 is flexible; v3 adds the user resource type."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable_since=0)
    pattern_type_filter: int = int8(since=1, default=3)
    principal_filter: str | None = string(nullable_since=0)
    host_filter: str | None = string(nullable_since=0)
    operation: int = int8()
    permission_type: int = int8()


@structure
class AclDescription:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@structure
class DescribeAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=3)
    acls: list[AclDescription] = array(AclDescription)


@message(versions=range(0, 4), flexible=2)
class DescribeAclsResponse:
    """Bindings by resource. v1 adds the pattern type; v2 is flexible; v3 adds the user resource type."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
