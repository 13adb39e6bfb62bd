"""SaslHandshake, versions 0 and 1: refused here, as the authenticator takes those of a SASL listener."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import ErrorCode
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return error_response(request, ErrorCode.ILLEGAL_SASL_STATE, None)


def error_response(
    request: SaslHandshakeRequest, code: ErrorCode, message: str | None
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)
