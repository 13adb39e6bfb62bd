"""DescribeAcls, versions 0 to 3: the ACL bindings that a filter selects.

v1 adds the pattern type, v2 is flexible, v3 adds the user resource type. Version 0 knows literal patterns
only.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.acls.bindings import ResourcePattern
from odradek.security.acls.filters import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter
from odradek.wire.messages.delete_acls import DeleteAclsFilter
from odradek.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NO_AUTHORIZER: Final = "the broker has no authorizer"
PATTERN_TYPES_SINCE: Final = 1


def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    context.require_on_cluster(AclOperation.DESCRIBE)
    manager = context.broker.acl_manager
    if manager is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for pattern, entry in sorted(manager.authorizer.bindings(binding_filter(request, context.version))):
        resource = resources.setdefault(
            pattern, DescribeAclsResource(pattern.resource_type, pattern.name, pattern.pattern_type, [])
        )
        resource.acls.append(
            AclDescription(entry.principal, entry.host, entry.operation, entry.permission_type)
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def binding_filter(request: DescribeAclsRequest | DeleteAclsFilter, version: int) -> AclBindingFilter:
    """Return the filter of a request; raises INVALID_REQUEST for one that this version does not know."""
    pattern_type = PatternType(request.pattern_type_filter)
    if version < PATTERN_TYPES_SINCE:
        pattern_type = PatternType.LITERAL
    selected = AclBindingFilter(
        ResourcePatternFilter(
            AclResourceType(request.resource_type_filter), request.resource_name_filter, pattern_type
        ),
        AccessControlEntryFilter(
            request.principal_filter,
            AclOperation(request.operation),
            AclPermissionType(request.permission_type),
            request.host_filter,
        ),
    )
    kinds = (
        selected.pattern.resource_type,
        pattern_type,
        selected.entry.operation,
        selected.entry.permission_type,
    )
    if any(kind == 0 for kind in kinds):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "a filter must have no unknown types or operations")
    return selected


def error_response(
    request: DescribeAclsRequest, code: ErrorCode, message: str | None
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=message)
