"""Admin API of delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_any_broker
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.net.api_versions import RequestBuilder
from odradek.security.principal import KafkaPrincipal, parse_principal
from odradek.security.tokens.token_information import DelegationToken, TokenInformation
from odradek.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

OWNERS_SINCE: Final = 3
"""Version that added another owner than the requester (KIP-373, brokers since 3.3)."""
BROKER_DEFAULT: Final = -1
"""Lifetime or period that is that of the broker's settings."""
AT_ONCE: Final = -1

V = TypeVar("V")


class DelegationTokensApi(AdminApi):
    """Delegation token methods of ``Admin``.

    The connection must be authenticated, by SASL or a client certificate, and not itself by a token. Brokers
    need ``delegation.token.secret.key``.
    """

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> DelegationToken:
        """Create a token that authenticates as its owner, by default the user of this client.

        Owner and renewers are principals such as ``User:alice``. The token's id and ``password`` are name and
        password of SCRAM, with ``tokenauth="true"`` in ``sasl.jaas.config``. The lifetime is bounded by the
        broker's ``delegation.token.max.lifetime.ms``, its default.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.create_delegation_token()  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        odradek.RequestRefused: create delegation token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        >>> admin.close()
        """
        owner_principal = None if owner is None else _principal("owner", owner)
        renewer_principals = [_principal("renewer", renewer) for renewer in renewers]
        lifetime_ms = BROKER_DEFAULT if max_lifetime_ms is None else max_lifetime_ms

        def build(version: int) -> CreateDelegationTokenRequest:
            request = CreateDelegationTokenRequest(
                renewers=[CreatableRenewers(*renewer) for renewer in renewer_principals],
                max_lifetime_ms=lifetime_ms,
            )
            if owner_principal is not None:
                if version < OWNERS_SINCE:
                    raise UnsupportedVersion(
                        f"CreateDelegationToken version {OWNERS_SINCE} required for an owner, got {version}"
                    )
                request.owner_principal_type, request.owner_principal_name = owner_principal
            return request

        def read(response: CreateDelegationTokenResponse) -> DelegationToken:
            return _created(response, renewer_principals)

        request = RequestBuilder(CreateDelegationTokenRequest, build)
        return await self._run_token_call("create delegation token", request, read, timeout_s)

    async def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int | None = None, timeout_s: float | None = None
    ) -> int:
        """Let a token expire later; return when, in milliseconds since the epoch.

        The period is from now on, by default the broker's ``delegation.token.expiry.time.ms``, and ends with
        the lifetime of the token at the latest. Only the owner and the renewers may.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.renew_delegation_token(b"hmac")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        odradek.RequestRefused: renew delegation token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        >>> admin.close()
        """

        def read(response: RenewDelegationTokenResponse) -> int:
            return response.expiry_timestamp_ms

        request = RenewDelegationTokenRequest(hmac, BROKER_DEFAULT if period_ms is None else period_ms)
        return await self._run_token_call("renew delegation token", request, read, timeout_s)

    async def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int | None = None, timeout_s: float | None = None
    ) -> int:
        """Let a token expire after a period, by default at once; return when.

        Only the owner and the renewers may. Connections that it has authenticated stay open until the time at
        which it would have expired.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.expire_delegation_token(b"hmac")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        odradek.RequestRefused: expire delegation token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        >>> admin.close()
        """

        def read(response: ExpireDelegationTokenResponse) -> int:
            return response.expiry_timestamp_ms

        request = ExpireDelegationTokenRequest(hmac, AT_ONCE if period_ms is None else period_ms)
        return await self._run_token_call("expire delegation token", request, read, timeout_s)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_s: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of owners, by default all, of those that the user of this client may see.

        These are the tokens that it owns, has requested or may renew, and those that ACLs let it describe.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_delegation_tokens()  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        odradek.RequestRefused: describe delegation tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        >>> admin.close()
        """
        principals = None if owners is None else [_principal("owner", owner) for owner in owners]

        def read(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
            return sorted(map(_described, response.tokens))

        request = DescribeDelegationTokenRequest(
            None
            if principals is None
            else [DescribeDelegationTokenOwner(*principal) for principal in principals]
        )
        return await self._run_token_call("describe delegation tokens", request, read, timeout_s)

    async def _run_token_call(
        self, call: str, request: Any, read: Callable[[Any], V], timeout_s: float | None
    ) -> V:
        """Send a request to any broker; return what is read from its response."""

        def read_or_error(keys: Sequence[None], response: Any) -> Iterable[tuple[None, V | ApiError]]:
            code = ErrorCode(response.error_code)
            yield None, ApiError(code) if code else read(response)

        handler: AdminApiHandler[None, V] = AdminApiHandler(
            call=call,
            key_name=lambda _: call,
            lookup=at_any_broker,
            build_request=lambda keys, timeout_ms: request,
            read_response=read_or_error,
        )
        return await self._driver.run_single(handler, timeout_s)


def _principal(role: str, text: str) -> KafkaPrincipal:
    try:
        return parse_principal(text)
    except ValueError as error:
        raise ValueError(f"{role} {error}") from None


def _created(response: CreateDelegationTokenResponse, renewers: Sequence[KafkaPrincipal]) -> DelegationToken:
    owner = KafkaPrincipal(response.principal_type, response.principal_name)
    requester = KafkaPrincipal(
        response.token_requester_principal_type, response.token_requester_principal_name
    )
    information = TokenInformation(
        response.token_id,
        owner,
        _requester(requester, owner),
        tuple(renewers),
        response.issue_timestamp_ms,
        response.max_timestamp_ms,
        response.expiry_timestamp_ms,
    )
    return DelegationToken(information, bytes(response.hmac))


def _described(token: DescribedDelegationToken) -> DelegationToken:
    owner = KafkaPrincipal(token.principal_type, token.principal_name)
    requester = KafkaPrincipal(token.token_requester_principal_type, token.token_requester_principal_name)
    information = TokenInformation(
        token.token_id,
        owner,
        _requester(requester, owner),
        tuple(KafkaPrincipal(renewer.principal_type, renewer.principal_name) for renewer in token.renewers),
        token.issue_timestamp,
        token.max_timestamp,
        token.expiry_timestamp,
    )
    return DelegationToken(information, bytes(token.hmac))


def _requester(requester: KafkaPrincipal, owner: KafkaPrincipal) -> KafkaPrincipal:
    """Return the requester; older brokers do not name it, as it is the owner."""
    return requester if requester.name else owner
