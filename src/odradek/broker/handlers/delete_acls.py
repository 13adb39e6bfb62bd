"""DeleteAcls, versions 0 to 3: each filter fails, because there is no authorizer."""

from __future__ import annotations

from odradek.broker.handlers.describe_acls import NO_AUTHORIZER
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    return error_response(request, ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")


def error_response(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(code, message, []) for _ in request.filters]
    )
