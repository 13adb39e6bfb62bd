"""AlterUserScramCredentials, key 51: upsert or delete SCRAM credentials of users. Version 0, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, bytes_, int8, int16, int32, message, string, structure


@structure
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@structure
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_(secret=True)


@message(versions=range(0, 1), flexible=0)
class AlterUserScramCredentialsRequest:
    """Deletions and upsertions, each by user and mechanism."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@structure
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@message(versions=range(0, 1), flexible=0)
class AlterUserScramCredentialsResponse:
    """An error per user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
