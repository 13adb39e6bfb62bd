"""DescribeAcls, versions 0 to 3: there is no authorizer, so there are no ACLs to describe."""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import ErrorCode
from odradek.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


def describe_acls(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    return refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def refuse(request: DescribeAclsRequest, code: ErrorCode, message: str | None) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=message)
