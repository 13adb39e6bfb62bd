"""DescribeUserScramCredentials, version 0: always none, because SCRAM credentials cannot be set."""

from __future__ import annotations

from collections import Counter

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    context.require_on_cluster(AclOperation.DESCRIBE)
    counts = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(results=[_result(*item) for item in counts.items()])


def _result(user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user,
            ErrorCode.DUPLICATE_RESOURCE,
            f"each user must appear once, got {user} twice",
        )
    return DescribeUserScramCredentialsResult(
        user,
        ErrorCode.RESOURCE_NOT_FOUND,
        f"user {user} has no SCRAM credentials",
    )


def error_response(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message)
