"""DeleteAcls, versions 0 to 3: remove the ACL bindings that filters select.

The response has the bindings of each filter; one that several filters select is that of the first. v1 adds
the pattern type, v2 is flexible, v3 adds the user resource type.
"""

from __future__ import annotations

from odradek.broker.acl_manager import DeletedAcl
from odradek.broker.handlers.describe_acls import NO_AUTHORIZER, binding_filter
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    context.require_on_cluster(AclOperation.ALTER)
    manager = context.broker.acl_manager
    if manager is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    filters = [binding_filter(each, context.version) for each in request.filters]
    results = await manager.delete(filters)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(matching_acls=[_matching_acl(deleted) for deleted in result])
            for result in results
        ]
    )


def _matching_acl(deleted: DeletedAcl) -> DeleteAclsMatchingAcl:
    (pattern, entry), error = deleted
    return DeleteAclsMatchingAcl(
        ErrorCode.NONE if error is None else error.code,
        None if error is None else error.message,
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def error_response(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(code, message, []) for _ in request.filters]
    )
