"""SaslAuthenticate, versions 0 to 2: refused here, as the authenticator takes those of a SASL listener."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

NO_HANDSHAKE = "SaslAuthenticate request received after successful authentication"


def sasl_authenticate(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return error_response(request, ErrorCode.ILLEGAL_SASL_STATE, NO_HANDSHAKE)


def error_response(
    request: SaslAuthenticateRequest, code: ErrorCode, message: str | None
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message)
