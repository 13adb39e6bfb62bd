"""RenewDelegationToken, versions 0 to 2: let a token expire later. Only its owner and renewers may.

v1 is as v0, v2 is flexible.
"""

from __future__ import annotations

from odradek.broker.handlers.delegation_token_requests import NO_TIMESTAMP, enabled_tokens, require_identity
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    require_identity(context)
    tokens = enabled_tokens(context)
    expiry_timestamp = await tokens.renew(context.session.principal, request.hmac, request.renew_period_ms)
    return RenewDelegationTokenResponse(ErrorCode.NONE, expiry_timestamp)


def error_response(
    request: RenewDelegationTokenRequest, code: ErrorCode, message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(code, NO_TIMESTAMP)
