"""CreateAcls, key 30: add ACL bindings. Versions 0 to 3."""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, message, string, structure


@structure
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(since=1, default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(versions=range(0, 4), flexible=2)
class CreateAclsRequest:
    """v1 adds the pattern type; v2 is flexible; v3 adds the user resource type."""

    creations: list[AclCreation] = array(AclCreation)


@structure
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@message(versions=range(0, 4), flexible=2)
class CreateAclsResponse:
    """An error per binding, in request order. v2 is flexible."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
