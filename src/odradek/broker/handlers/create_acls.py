"""CreateAcls, versions 0 to 3: add ACL bindings. Each succeeds or fails for itself.

v1 adds the pattern type, v2 is flexible, v3 adds the user resource type.
"""

from __future__ import annotations

from odradek.broker.handlers.describe_acls import NO_AUTHORIZER
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    context.require_on_cluster(AclOperation.ALTER)
    manager = context.broker.acl_manager
    if manager is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    errors = await manager.create([_binding(creation) for creation in request.creations])
    return CreateAclsResponse(
        results=[
            AclCreationResult() if error is None else AclCreationResult(error.code, error.message)
            for error in errors
        ]
    )


def _binding(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            AclResourceType(creation.resource_type),
            creation.resource_name,
            PatternType(creation.resource_pattern_type),
        ),
        AccessControlEntry(
            creation.principal,
            AclOperation(creation.operation),
            AclPermissionType(creation.permission_type),
            creation.host,
        ),
    )


def error_response(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, message) for _ in request.creations])
