"""DescribeDelegationToken, key 41: list the tokens of owners. Versions 0 to 3."""

from __future__ import annotations

from odradek.wire.schema import array, bytes_, int16, int32, int64, message, string, structure


@structure
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@message(versions=range(0, 4), flexible=2)
class DescribeDelegationTokenRequest:
    """Owners, or null for all. v2 is flexible."""

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable_since=0)


@structure
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@structure
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_(secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@message(versions=range(0, 4), flexible=2)
class DescribeDelegationTokenResponse:
    """v2 is flexible; v3 adds the requester of each token."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
