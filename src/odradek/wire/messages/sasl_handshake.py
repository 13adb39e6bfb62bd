"""SaslHandshake, key 17: choose an authentication mechanism. Versions 0 and 1; never flexible.

After version 0 the exchange continues as bare frames, after version 1 inside SaslAuthenticate.
"""

from __future__ import annotations

from odradek.wire.schema import array, int16, message, string


@message(versions=range(0, 2))
class SaslHandshakeRequest:
    """The requested mechanism. The same in both versions."""

    mechanism: str = string()


@message(versions=range(0, 2))
class SaslHandshakeResponse:
    """An error, and the mechanisms enabled on the listener. The same in both versions."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
