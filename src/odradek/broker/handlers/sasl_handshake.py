"""SaslHandshake, versions 0 and 1: out of place on PLAINTEXT listeners, and there are no others."""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import ErrorCode
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    return refuse(request, ErrorCode.ILLEGAL_SASL_STATE, None)


def refuse(request: SaslHandshakeRequest, code: ErrorCode, message: str | None) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)
