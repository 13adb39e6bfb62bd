"""DescribeAcls, versions 0 to 3: fails, because there is no authorizer."""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER: Final = "the broker has no authorizer"


def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return error_response(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_response(
    request: DescribeAclsRequest, code: ErrorCode, message: str | None
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=message)
