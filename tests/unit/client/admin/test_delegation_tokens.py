"""Delegation tokens of the admin client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.delegation_tokens import DelegationTokensApi
from odradek.model.client_errors import RequestRefused, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.security.principal import user
from odradek.wire.messages.create_delegation_token import CreateDelegationTokenResponse
from odradek.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

RunWithAdmin = Callable[..., None]
HMAC = b"\x01" * 64
CREATED = CreateDelegationTokenResponse(0, "User", "alice", "User", "bob", 1, 2, 3, "tid", HMAC)


class Broker:
    """Takes the place of the driver: keeps the request, and answers it."""

    def __init__(self, response: Any, version: int = 3) -> None:
        self.request: Any = None
        self._response = response
        self._version = version

    async def run_single(self, handler: Any, timeout_s: float | None) -> Any:
        request = handler.build_request([None], 1000)
        self.request = request.build(self._version) if hasattr(request, "build") else request
        [(_, result)] = handler.read_response([None], self._response)
        return result


def api_of(broker: Broker) -> DelegationTokensApi:
    api = DelegationTokensApi.__new__(DelegationTokensApi)
    api._driver = broker  # type: ignore[assignment]
    return api


def test_creation() -> None:
    broker = Broker(CREATED)
    call = api_of(broker).create_delegation_token(
        owner="User:alice", renewers=["User:c:d", "User:"], max_lifetime_ms=7
    )
    token = asyncio.run(call)
    request = broker.request
    assert (request.owner_principal_type, request.owner_principal_name) == ("User", "alice")
    names = [(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    assert names == [("User", "c:d"), ("User", "")]
    assert request.max_lifetime_ms == 7
    information = token.information
    assert information == ("tid", user("alice"), user("bob"), (user("c:d"), user("")), 1, 3, 2)
    assert token.hmac == HMAC
    assert str(HMAC) not in repr(token)


@pytest.mark.parametrize("version", [0, 2])
def test_older_brokers_know_one_principal(version: int) -> None:
    response = CreateDelegationTokenResponse(0, "User", "alice", "", "", 1, 2, 3, "tid", HMAC)
    broker = Broker(response, version)
    token = asyncio.run(api_of(broker).create_delegation_token())
    assert (broker.request.owner_principal_name, broker.request.max_lifetime_ms) == ("", -1)
    assert token.information.requester == token.information.owner == user("alice")
    with pytest.raises(UnsupportedVersion, match="version 3 required for an owner, got"):
        asyncio.run(api_of(broker).create_delegation_token(owner="User:alice"))


@pytest.mark.parametrize(("period_ms", "sent"), [(None, -1), (0, 0), (9, 9)])
def test_periods(period_ms: int | None, sent: int) -> None:
    broker = Broker(RenewDelegationTokenResponse(0, 5))
    assert asyncio.run(api_of(broker).renew_delegation_token(HMAC, period_ms=period_ms)) == 5
    assert (broker.request.hmac, broker.request.renew_period_ms) == (HMAC, sent)
    broker = Broker(ExpireDelegationTokenResponse(0, 6))
    assert asyncio.run(api_of(broker).expire_delegation_token(HMAC, period_ms=period_ms)) == 6
    assert (broker.request.hmac, broker.request.expiry_time_period_ms) == (HMAC, sent)


@pytest.mark.parametrize(
    ("owners", "sent"), [(None, None), ([], []), (["User:a", "User:b"], [("User", "a"), ("User", "b")])]
)
def test_descriptions(owners: list[str] | None, sent: list[tuple[str, str]] | None) -> None:
    tokens = [
        DescribedDelegationToken(
            "User",
            "alice",
            *requester,
            1,
            2,
            3,
            token_id,
            HMAC,
            [DescribedDelegationTokenRenewer("User", "c")],
        )
        for token_id, requester in (("second", ("", "")), ("first", ("User", "bob")))
    ]
    broker = Broker(DescribeDelegationTokenResponse(0, tokens))
    first, second = asyncio.run(api_of(broker).describe_delegation_tokens(owners))
    requested = broker.request.owners
    assert sent == (
        None if requested is None else [(each.principal_type, each.principal_name) for each in requested]
    )
    alice = user("alice")
    assert first.information == ("first", alice, user("bob"), (user("c"),), 1, 3, 2)
    assert second.information == ("second", alice, alice, (user("c"),), 1, 3, 2)


def test_errors_of_the_broker(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        admin = fixture.admin
        for call in (
            admin.create_delegation_token(),
            admin.renew_delegation_token(HMAC),
            admin.expire_delegation_token(HMAC),
            admin.describe_delegation_tokens(),
        ):
            with pytest.raises(RequestRefused, match="delegation token") as refused:
                await call
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    run_with_admin(scenario)


@pytest.mark.parametrize("text", ["", "alice", ":alice"])
def test_principals_have_a_type_and_a_name(text: str) -> None:
    api = api_of(Broker(CREATED))
    for call in (
        api.create_delegation_token(owner=text),
        api.create_delegation_token(renewers=[text]),
        api.describe_delegation_tokens([text]),
    ):
        with pytest.raises(ValueError, match="must be in the format principalType:principalName, got"):
            asyncio.run(call)
