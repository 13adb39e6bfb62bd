"""ExpireDelegationToken, versions 0 to 2: let a token expire sooner. Only its owner and renewers may.

v1 is as v0, v2 is flexible. A negative period removes the token at once.
"""

from __future__ import annotations

from odradek.broker.handlers.delegation_token_requests import NO_TIMESTAMP, enabled_tokens, require_identity
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    require_identity(context)
    tokens = enabled_tokens(context)
    expiry_timestamp = await tokens.expire(
        context.session.principal, request.hmac, request.expiry_time_period_ms
    )
    return ExpireDelegationTokenResponse(ErrorCode.NONE, expiry_timestamp)


def error_response(
    request: ExpireDelegationTokenRequest, code: ErrorCode, message: str | None
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(code, NO_TIMESTAMP)
