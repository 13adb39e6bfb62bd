"""Decisions on requests about delegation tokens, and authentication by them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable

import pytest

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.secret import Secret
from odradek.security.principal import ANONYMOUS, KafkaPrincipal, user
from odradek.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, InvalidCredentials
from odradek.security.sasl.scram_client import ScramClient
from odradek.security.sasl.scram_server import ScramCredentials, ScramServer
from odradek.security.tokens import token_cache
from odradek.security.tokens.token_cache import TokenCache
from odradek.security.tokens.token_checks import RENEWERS_MAX, check_connection, check_creation
from odradek.security.tokens.token_information import DelegationToken, token_hmac
from odradek.security.tokens.token_manager import DelegationTokenManager, TokenSettings
from odradek.security.tokens.token_nodes import decode_token, encode_token

SECRET = Secret("cluster secret")
NOW = 1_000_000
DAY = 24 * 3600 * 1000
ALICE, BOB, CAROL, DAVE = user("alice"), user("bob"), user("carol"), user("dave")


def manager(**settings: int) -> DelegationTokenManager:
    return DelegationTokenManager(SECRET, TokenSettings(**settings), os.urandom)


def created(
    tokens: DelegationTokenManager,
    owner: KafkaPrincipal = ALICE,
    requester: KafkaPrincipal = BOB,
    max_ms: int = 0,
) -> DelegationToken:
    """Create a token that CAROL may renew, and let the manager know it."""
    token = tokens.create(owner, requester, [CAROL], max_ms, NOW)
    assert tokens.cache.put(token.information) == token
    return token


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        call()
    return refused.value.code


def test_hmac_is_that_of_kafka() -> None:
    expected = hmac.new(b"cluster secret", b"tid", hashlib.sha512).digest()
    assert token_hmac("tid", SECRET) == expected
    token = created(manager())
    assert token.hmac == token_hmac(token.information.token_id, SECRET)
    assert token.password.reveal() == base64.b64encode(token.hmac).decode()
    for shown in (repr(token), str(token), f"{token}"):
        assert str(token.hmac) not in shown
        assert token.password.reveal() not in shown
        assert token.information.token_id in shown


def test_creation() -> None:
    token = created(manager())
    information = token.information
    assert (information.owner, information.requester, information.renewers) == (ALICE, BOB, (CAROL,))
    assert (information.issue_timestamp, information.expiry_timestamp) == (NOW, NOW + DAY)
    assert information.max_timestamp == NOW + 7 * DAY
    assert len(base64.urlsafe_b64decode(information.token_id + "==")) == 16
    assert decode_token(encode_token(information)) == information
    assert created(manager()).information.token_id != information.token_id


@pytest.mark.parametrize(
    ("asked", "lifetime"),
    [(0, 7 * DAY), (1, 1), (-1, 7 * DAY), (5, 5), (8 * DAY, 7 * DAY), (2 * DAY, 2 * DAY)],
)
def test_lifetime_is_bounded(asked: int, lifetime: int) -> None:
    information = created(manager(), max_ms=asked).information
    assert information.max_timestamp == NOW + lifetime
    assert information.expiry_timestamp == NOW + min(lifetime, DAY)


@pytest.mark.parametrize("principal", [ALICE, CAROL])
def test_owner_and_renewers_renew(principal: KafkaPrincipal) -> None:
    tokens = manager()
    token = created(tokens)
    for period, expiry in ((-1, DAY), (5, 5), (0, 0), (9 * DAY, 7 * DAY - 10)):
        renewed = tokens.renew(principal, token.hmac, period, NOW + 10)
        assert renewed == token.information._replace(expiry_timestamp=NOW + 10 + expiry)
    assert tokens.cache.token(token.information.token_id) == token  # nothing changes before it is stored


@pytest.mark.parametrize("principal", [BOB, DAVE, ANONYMOUS, KafkaPrincipal("Group", "alice")])
def test_others_change_no_token(principal: KafkaPrincipal) -> None:
    tokens = manager()
    token = created(tokens)
    late = NOW + 10 * DAY
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert code_of(lambda: tokens.renew(principal, token.hmac, 5, NOW)) == mismatch
    assert code_of(lambda: tokens.expire(principal, token.hmac, 5, NOW)) == mismatch
    assert code_of(lambda: tokens.expire(principal, token.hmac, -1, NOW)) == mismatch
    assert code_of(lambda: tokens.renew(principal, token.hmac, 5, late)) == mismatch


@pytest.mark.parametrize("other", [b"", b"x", bytes(64)])
def test_unknown_tokens(other: bytes) -> None:
    tokens = manager()
    created(tokens)
    missing = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert code_of(lambda: tokens.renew(ALICE, other, 5, NOW)) == missing
    assert code_of(lambda: tokens.expire(ALICE, other, -1, NOW)) == missing


def test_expired_tokens_are_not_changed_but_removed() -> None:
    tokens = manager()
    token = created(tokens)
    assert tokens.renew(ALICE, token.hmac, 5, NOW + DAY)
    late = NOW + DAY + 1
    assert code_of(lambda: tokens.renew(ALICE, token.hmac, 5, late)) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert code_of(lambda: tokens.expire(ALICE, token.hmac, 5, late)) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert tokens.expire(ALICE, token.hmac, -1, late) == (token.information.token_id, None, late)


def test_expiration() -> None:
    tokens = manager()
    token = created(tokens)
    token_id = token.information.token_id
    sooner = token.information._replace(expiry_timestamp=NOW + 5)
    assert tokens.expire(CAROL, token.hmac, 5, NOW) == (token_id, sooner, NOW + 5)
    capped = token.information._replace(expiry_timestamp=NOW + 7 * DAY)
    assert tokens.expire(ALICE, token.hmac, 8 * DAY, NOW) == (token_id, capped, NOW + 7 * DAY)
    assert tokens.expire(ALICE, token.hmac, -1, NOW) == (token_id, None, NOW)
    now = token.information._replace(expiry_timestamp=NOW)
    assert tokens.expire(ALICE, token.hmac, 0, NOW) == (token_id, now, NOW)


def test_removal_leaves_nothing_behind() -> None:
    tokens = manager()
    token, other = created(tokens), created(tokens)
    for known in (token, other):
        assert tokens.cache.credential(SCRAM_SHA_256, known.information.token_id, NOW)
    tokens.cache.remove(token.information.token_id)
    missing = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert code_of(lambda: tokens.expire(ALICE, token.hmac, -1, NOW)) == missing
    assert tokens.cache.token_of_hmac(other.hmac) == other
    assert [token_id for _, token_id in tokens.cache._credentials] == [other.information.token_id]


def test_scan_for_expired_tokens() -> None:
    tokens = manager()
    short, long = created(tokens, max_ms=5), created(tokens)
    assert tokens.expired(NOW + 5) == []
    assert tokens.expired(NOW + 6) == [short.information.token_id]
    tokens.cache.remove(short.information.token_id)
    tokens.cache.remove(short.information.token_id)
    assert tokens.expired(NOW + 6) == []
    assert list(tokens.cache.tokens()) == [long]


def nobody(_: object) -> bool:
    return False


def everybody(_: object) -> bool:
    return True


@pytest.mark.parametrize("principal", [ALICE, BOB, CAROL])
def test_owner_requester_and_renewers_see_a_token(principal: KafkaPrincipal) -> None:
    tokens = manager()
    token = created(tokens)
    created(tokens, DAVE, DAVE)
    seen = tokens.describe(principal, None, nobody, nobody)
    assert token in seen
    assert len(seen) == (2 if principal == CAROL else 1)
    assert tokens.describe(principal, [ALICE], nobody, nobody) == [token]
    assert tokens.describe(principal, [], everybody, everybody) == []


def test_others_see_tokens_by_permission_only() -> None:
    tokens = manager()
    token = created(tokens)
    token_id = token.information.token_id
    assert tokens.describe(DAVE, None, nobody, nobody) == []
    assert tokens.describe(DAVE, None, lambda name: name == token_id, nobody) == [token]
    assert tokens.describe(DAVE, None, nobody, lambda owner: owner == ALICE) == [token]
    assert tokens.describe(DAVE, None, nobody, lambda owner: owner == BOB) == []
    assert tokens.describe(DAVE, [DAVE], everybody, everybody) == []
    assert tokens.describe(DAVE, [BOB, DAVE], everybody, everybody) == [token]


@pytest.mark.parametrize("secret", [None, Secret("")])
def test_tokens_are_disabled_without_a_secret(secret: Secret | None) -> None:
    tokens = DelegationTokenManager(secret, TokenSettings(), os.urandom)
    assert not tokens.is_enabled
    assert manager().is_enabled
    for call in (
        lambda: tokens.create(ALICE, ALICE, [], 0, NOW),
        lambda: tokens.renew(ALICE, b"", 0, NOW),
        lambda: tokens.expire(ALICE, b"", 0, NOW),
        lambda: tokens.describe(ALICE, None, everybody, everybody),
    ):
        assert code_of(call) == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize(
    ("principal", "protocol", "by_token", "is_allowed"),
    [
        (ALICE, "SASL_SSL", False, True),
        (ALICE, "SASL_PLAINTEXT", False, True),
        (ALICE, "SSL", False, True),
        (ALICE, "SASL_SSL", True, False),
        (ANONYMOUS, "SSL", False, False),
        (ANONYMOUS, "PLAINTEXT", False, False),
        (ALICE, "PLAINTEXT", False, False),
    ],
)
def test_connections(principal: KafkaPrincipal, protocol: str, by_token: bool, is_allowed: bool) -> None:
    if is_allowed:
        check_connection(principal, protocol, by_token)
    else:
        code = code_of(lambda: check_connection(principal, protocol, by_token))
        assert code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_checks_of_a_creation() -> None:
    check_creation(ALICE, ALICE, [BOB], nobody)
    check_creation(BOB, ALICE, [], lambda owner: owner == BOB)
    group = KafkaPrincipal("Group", "g")
    assert code_of(lambda: check_creation(BOB, ALICE, [group], nobody)) == (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    )
    assert (
        code_of(lambda: check_creation(ALICE, ALICE, [BOB, group], nobody))
        == ErrorCode.INVALID_PRINCIPAL_TYPE
    )
    check_creation(ALICE, ALICE, [BOB] * RENEWERS_MAX, nobody)
    many = [BOB] * (RENEWERS_MAX + 1)
    assert code_of(lambda: check_creation(ALICE, ALICE, many, nobody)) == ErrorCode.INVALID_REQUEST


def broker_side(mechanism: str, cache: TokenCache, now_ms: int) -> ScramServer:
    return ScramServer(
        mechanism,
        ScramCredentials(
            lambda _: None,
            lambda token_id: cache.credential(mechanism, token_id, now_ms),
            os.urandom,
            bytes(32),
        ),
    )


def authenticate(server: ScramServer, mechanism: str, token: DelegationToken) -> None:
    client = ScramClient(mechanism, token.information.token_id, token.password, os.urandom, is_token=True)
    message: bytes | None = client.start()
    while message is not None:
        message = client.evaluate(server.evaluate(message))


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_authentication_by_a_token(mechanism: str) -> None:
    tokens = manager()
    token = created(tokens)
    server = broker_side(mechanism, tokens.cache, NOW + DAY)
    authenticate(server, mechanism, token)
    assert (server.authorization_id, server.is_token, server.expires_at_ms) == ("alice", True, NOW + DAY)


@pytest.mark.parametrize("state", ["expired", "removed"])
def test_tokens_that_ended_do_not_authenticate(state: str) -> None:
    tokens = manager()
    token = created(tokens)
    authenticate(broker_side(SCRAM_SHA_256, tokens.cache, NOW), SCRAM_SHA_256, token)
    if state == "removed":
        tokens.cache.remove(token.information.token_id)
    server = broker_side(SCRAM_SHA_256, tokens.cache, NOW + DAY + 1 if state == "expired" else NOW)
    with pytest.raises(InvalidCredentials):
        authenticate(server, SCRAM_SHA_256, token)


def test_tokens_of_another_secret_do_not_authenticate() -> None:
    tokens = manager()
    token = created(tokens)
    foreign = TokenCache(Secret("another secret"), os.urandom)
    foreign.put(token.information)
    with pytest.raises(InvalidCredentials):
        authenticate(broker_side(SCRAM_SHA_256, foreign, NOW), SCRAM_SHA_256, token)


def test_credentials_are_derived_once_and_survive_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = manager()
    token = created(tokens)
    token_id = token.information.token_id
    first = tokens.cache.credential(SCRAM_SHA_256, token_id, NOW)
    monkeypatch.setattr(token_cache, "create_credential", None)
    tokens.cache.put(token.information._replace(expiry_timestamp=NOW + 2 * DAY))
    second = tokens.cache.credential(SCRAM_SHA_256, token_id, NOW)
    assert first is not None
    assert second is not None
    assert (second.credential, second.expires_at_ms) == (first.credential, NOW + 2 * DAY)
    assert tokens.cache.credential(SCRAM_SHA_256, "other", NOW) is None
