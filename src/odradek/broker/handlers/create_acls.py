"""CreateAcls, versions 0 to 3: there is no authorizer, so each creation is refused."""

from __future__ import annotations

from odradek.broker.handlers.describe_acls import NO_AUTHORIZER
from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def create_acls(request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    return refuse(request, ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")


def refuse(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, message) for _ in request.creations])
