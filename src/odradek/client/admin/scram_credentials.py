"""Admin API of the SCRAM credentials of users."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_any_broker, at_controller
from odradek.model.errors import ErrorCode
from odradek.model.secret import Secret
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

ITERATIONS_DEFAULT: Final = 4096
_SALT_BYTES: Final = 32


class ScramMechanism(IntEnum):
    """SCRAM mechanisms, by their number in the protocol."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    def __str__(self) -> str:
        return self.name.replace("_", "-")


class ScramCredentialInfo(NamedTuple):
    """A credential of a user, without its keys."""

    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialUpsertion:
    """A new or changed password of a user for one mechanism. ``repr`` does not show the password.

    >>> from odradek import ScramMechanism, UserScramCredentialUpsertion
    >>> UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_256, "secret")
    UserScramCredentialUpsertion('alice', SCRAM-SHA-256, iterations=4096)
    """

    def __init__(
        self,
        user: str,
        mechanism: ScramMechanism,
        password: str,
        iterations: int = ITERATIONS_DEFAULT,
        salt: bytes | None = None,
    ) -> None:
        self.user = user
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        self._password = Secret(password)

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.mechanism}, iterations={self.iterations})"

    def salted_password(self) -> bytes:
        """Return what is sent to the broker instead of the password."""
        hash_name = "sha512" if self.mechanism is ScramMechanism.SCRAM_SHA_512 else "sha256"
        password = self._password.reveal().encode()
        return hashlib.pbkdf2_hmac(hash_name, password, self.salt, max(self.iterations, 1))


class UserScramCredentialDeletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


class ScramCredentialsApi(AdminApi):
    """SCRAM methods of ``Admin``."""

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Set and delete passwords of users. All changes of one user succeed or fail together.

        Passwords are sent salted and hashed. Use an encrypted connection: who reads it can log in. Brokers
        since 2.7.

        >>> from odradek import Admin, ScramMechanism, UserScramCredentialUpsertion
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> password = UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "alice's secret")
        >>> admin.alter_user_scram_credentials([password])
        >>> [info.iterations for info in admin.describe_user_scram_credentials(["alice"])["alice"]]
        [4096]
        >>> admin.close()
        """
        deletions: dict[str, list[ScramCredentialDeletion]] = {}
        upsertions: dict[str, list[ScramCredentialUpsertion]] = {}
        for change in alterations:
            user = change.user
            deletions.setdefault(user, [])
            if isinstance(change, UserScramCredentialDeletion):
                deletions[user].append(ScramCredentialDeletion(user, change.mechanism))
            else:
                upsertions.setdefault(user, []).append(_upsertion(change))

        def request(users: Sequence[str], timeout_ms: int) -> AlterUserScramCredentialsRequest:
            return AlterUserScramCredentialsRequest(
                [deletion for user in users for deletion in deletions[user]],
                [upsertion for user in users for upsertion in upsertions.get(user, ())],
            )

        handler: AdminApiHandler[str, None] = AdminApiHandler(
            call="alter SCRAM credentials",
            key_name=_user_text,
            lookup=at_controller,
            build_request=request,
            read_response=_read_altered,
            retry_codes=CONTROLLER_MOVED,
        )
        await self._driver.run(handler, deletions, timeout_s)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, list[ScramCredentialInfo]]:
        """Return the mechanisms and iterations of users; by default of all users with a password.

        A user without a password is an error. Brokers since 2.7.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> isinstance(admin.describe_user_scram_credentials(), dict)
        True
        >>> admin.close()
        """
        if users is None:
            return await self._driver.run_single(_describe_all(), timeout_s)
        handler: AdminApiHandler[str, list[ScramCredentialInfo]] = AdminApiHandler(
            call="describe SCRAM credentials",
            key_name=_user_text,
            lookup=at_any_broker,
            build_request=lambda keys, timeout_ms: DescribeUserScramCredentialsRequest(
                [UserName(user) for user in keys]
            ),
            read_response=_read_described,
        )
        return await self._driver.run(handler, users, timeout_s)


def _user_text(user: str) -> str:
    return f"user {user}"


def _upsertion(change: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        change.user, change.mechanism, change.iterations, change.salt, change.salted_password()
    )


def _read_altered(
    users: Sequence[str], response: AlterUserScramCredentialsResponse
) -> Iterable[tuple[str, ApiError | None]]:
    for result in response.results:
        code = ErrorCode(result.error_code)
        yield result.user, ApiError(code, result.error_message) if code else None


def _describe_all() -> AdminApiHandler[None, dict[str, list[ScramCredentialInfo]]]:
    def read(
        keys: Sequence[None], response: DescribeUserScramCredentialsResponse
    ) -> Iterable[tuple[None, dict[str, list[ScramCredentialInfo]] | ApiError]]:
        results = dict(_read_described([], response))
        errors = [result for result in results.values() if isinstance(result, ApiError)]
        if response.error_code:
            yield None, ApiError(ErrorCode(response.error_code), response.error_message)
        elif errors:
            yield None, errors[0]
        else:
            yield (
                None,
                {user: infos for user, infos in results.items() if not isinstance(infos, ApiError)},
            )

    return AdminApiHandler(
        call="describe SCRAM credentials",
        key_name=lambda _: "describe SCRAM credentials",
        lookup=at_any_broker,
        build_request=lambda keys, timeout_ms: DescribeUserScramCredentialsRequest(None),
        read_response=read,
    )


def _read_described(
    users: Sequence[str], response: DescribeUserScramCredentialsResponse
) -> Iterable[tuple[str, list[ScramCredentialInfo] | ApiError]]:
    if response.error_code:
        error = ApiError(ErrorCode(response.error_code), response.error_message)
        yield from ((user, error) for user in users)
        return
    for result in response.results:
        if result.error_code:
            yield result.user, ApiError(ErrorCode(result.error_code), result.error_message)
        else:
            yield (
                result.user,
                [
                    ScramCredentialInfo(_known(info.mechanism), info.iterations)
                    for info in result.credential_infos
                ],
            )


def _known(number: int) -> ScramMechanism:
    return ScramMechanism(number) if number in set(ScramMechanism) else ScramMechanism.UNKNOWN
