"""CreateAcls, versions 0 to 3: each creation fails, because there is no authorizer."""

from __future__ import annotations

from odradek.broker.handlers.describe_acls import NO_AUTHORIZER
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    return error_response(request, ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")


def error_response(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, message) for _ in request.creations])
