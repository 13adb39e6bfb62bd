"""Errors of TLS connections: short reasons instead of OpenSSL's."""

from __future__ import annotations

import re
import ssl
from typing import Final

_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_([A-Z_]+)")
_REASONS: Final = {
    "HTTP_REQUEST": "the peer sent an HTTP request",
    "WRONG_VERSION_NUMBER": "the peer does not use TLS, or no supported version of it",
    "UNSUPPORTED_PROTOCOL": "no TLS version is enabled on both sides",
    "NO_PROTOCOLS_AVAILABLE": "no TLS version is enabled on both sides",
    "NO_SHARED_CIPHER": "no cipher suite is enabled on both sides",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate",
    "UNEXPECTED_EOF_WHILE_READING": "the peer closed the connection",
}
_ALERTS: Final = {
    "PROTOCOL_VERSION": "no TLS version is enabled on both sides",
    "HANDSHAKE_FAILURE": "no cipher suite is enabled on both sides, or a certificate is missing",
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "UNKNOWN_CA": "it does not trust the authority of this side's certificate",
    "CERTIFICATE_EXPIRED": "this side's certificate has expired",
    "BAD_CERTIFICATE": "it does not accept this side's certificate",
    "CERTIFICATE_UNKNOWN": "it does not accept this side's certificate",
}


class TlsError(OSError):
    """Raised when a TLS connection cannot continue; the message has no secret."""


class TlsHandshakeFailed(TlsError):
    """Raised when a connection could not be encrypted, or a certificate was refused: retries are no use until
    a configuration changes."""


def describe(error: ssl.SSLError) -> str:
    """Return the reason of an error in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the peer is not accepted: {error.verify_message}"
    reason = error.reason or ""
    alert = _ALERT.fullmatch(reason)
    if alert is not None:
        text = _ALERTS.get(alert[1]) or alert[1].lower().replace("_", " ")
        return f"the peer refused the connection: {text}"
    if reason in _REASONS:
        return _REASONS[reason]
    return reason.lower().replace("_", " ") or "protocol error"
