"""SaslAuthenticate, key 36: one step of an authentication exchange. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import bytes_, int16, int64, message, string


@message(versions=range(0, 3), flexible=2)
class SaslAuthenticateRequest:
    """The client's bytes, opaque except to the mechanism. v2 is flexible."""

    auth_bytes: bytes = bytes_(secret=True)


@message(versions=range(0, 3), flexible=2)
class SaslAuthenticateResponse:
    """The server's bytes. v1 adds the session lifetime; v2 is flexible."""

    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    auth_bytes: bytes = bytes_(secret=True)
    session_lifetime_ms: int = int64(since=1, ignorable=True)
