"""DescribeUserScramCredentials, key 50: SCRAM mechanisms of users, without credentials. Version 0,
flexible.
"""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, message, string, structure


@structure
class UserName:
    name: str = string()


@message(versions=range(0, 1), flexible=0)
class DescribeUserScramCredentialsRequest:
    """Users, or null for all."""

    users: list[UserName] | None = array(UserName, nullable_since=0)


@structure
class CredentialInfo:
    mechanism: int = int8()
    iterations: int = int32()


@structure
class DescribeUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@message(versions=range(0, 1), flexible=0)
class DescribeUserScramCredentialsResponse:
    """Mechanisms and iteration counts per user."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
