"""DeleteAcls, versions 0 to 3: there is no authorizer, so each filter is refused."""

from __future__ import annotations

from odradek.broker.handlers.describe_acls import NO_AUTHORIZER
from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def delete_acls(request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    return refuse(request, ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")


def refuse(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(code, message, []) for _ in request.filters]
    )
