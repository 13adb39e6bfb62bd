"""CreateDelegationToken, key 38: create a token that authenticates as its owner. Versions 0 to 3."""

from __future__ import annotations

from odradek.wire.schema import array, bytes_, int16, int32, int64, message, string, structure


@structure
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@message(versions=range(0, 4), flexible=2)
class CreateDelegationTokenRequest:
    """The allowed renewers and the maximum lifetime. v2 is flexible; v3 adds the owner."""

    owner_principal_type: str | None = string(since=3, nullable_since=3)
    owner_principal_name: str | None = string(since=3, nullable_since=3)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message(versions=range(0, 4), flexible=2)
class CreateDelegationTokenResponse:
    """The token. v2 is flexible; v3 adds the requester."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_(secret=True)
    throttle_time_ms: int = int32()
