"""RenewDelegationToken, key 39: extend the lifetime of a token. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import bytes_, int16, int32, int64, message


@message(versions=range(0, 3), flexible=2)
class RenewDelegationTokenRequest:
    """v2 is flexible."""

    hmac: bytes = bytes_(secret=True)
    renew_period_ms: int = int64()


@message(versions=range(0, 3), flexible=2)
class RenewDelegationTokenResponse:
    """v2 is flexible."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
