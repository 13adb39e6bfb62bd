"""Verification of access tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.security.sasl.jwt_factory import (
    NOW_MS,
    NOW_S,
    claims,
    ec_jwk,
    ec_key,
    key_set_text,
    number,
    rsa_jwk,
    rsa_key,
    section,
    sign,
    unsecured,
)

from odradek.security.sasl import jwt_keys, jwt_text
from odradek.security.sasl.jwt_keys import ALGORITHMS, parse_key_set
from odradek.security.sasl.jwt_validator import JwtSettings, JwtValidator, UnknownKey
from odradek.security.sasl.mechanism import SaslRefused
from odradek.security.sasl.oauthbearer_server import ValidatedToken

KEYS = parse_key_set(
    key_set_text(
        rsa_jwk(rsa_key(), kid="rsa", use="sig"),
        rsa_jwk(rsa_key(name="second"), kid="second", alg="RS512"),
        ec_jwk("P-256", kid="P-256"),
        ec_jwk("P-384", kid="P-384", key_ops=["verify"]),
        ec_jwk("P-521", kid="P-521"),
    )
)


def validator(**settings: Any) -> JwtValidator:
    return JwtValidator(JwtSettings(**settings), lambda: KEYS, lambda: NOW_MS)


def detail(token: str, **settings: Any) -> str:
    with pytest.raises(SaslRefused) as refused:
        validator(**settings).validate(token)
    assert str(refused.value) == "invalid_token"
    return refused.value.detail


def signed(**changes: object) -> str:
    return sign(claims(**changes), rsa_key(), kid="rsa")


def raw(header: Mapping[str, object] | None = None, **changes: Any) -> str:
    """Return a signed token that pyjwt would not encode."""
    parts = f"{section(header or {'alg': 'RS256', 'kid': 'rsa'})}.{section(claims(**changes))}"
    signature = jwt.get_algorithm_by_name("RS256").sign(parts.encode(), rsa_key())
    return f"{parts}.{jwt.utils.base64url_encode(signature).decode()}"


def test_claims_of_a_valid_token() -> None:
    token = signed(scope=["read", " write "], exp=NOW_S + 60.9)
    assert validator().validate(token) == ValidatedToken(
        "alice", (NOW_S + 60) * 1000, frozenset({"read", "write"}), (NOW_S - 10) * 1000
    )


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_each_algorithm_is_accepted(algorithm: str) -> None:
    curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}.get(algorithm)
    key: Any = ec_key(curve) if curve else rsa_key()
    token = sign(claims(), key, algorithm, kid=curve or "rsa")
    assert validator().validate(token).principal_name == "alice"
    tampered = token[:-8] + ("AAAAAAAA" if not token.endswith("AAAAAAAA") else "BBBBBBBB")
    assert detail(tampered)


def test_a_token_without_key_id_is_tried_with_the_keys_of_its_algorithm() -> None:
    assert validator().validate(sign(claims(), rsa_key())).principal_name == "alice"
    assert detail(sign(claims(), rsa_key(name="unknown"))) == "signature does not verify"


@pytest.mark.parametrize(
    "token",
    [
        unsecured(claims()),
        unsecured(claims(), "None"),
        f"{section({'alg': 'none', 'kid': 'rsa'})}.{section(claims())}.c2ln",
    ],
)
def test_unsecured_tokens_are_refused_in_a_clear_line(token: str) -> None:
    assert detail(token) == "unsecured tokens (alg none) are not supported: the token must be signed"


def test_public_keys_are_no_secrets_of_hmac_signatures() -> None:
    pem = b"-----BEGIN PUBLIC KEY-----"
    for algorithm in ("HS256", "HS384", "HS512"):
        header = section({"alg": algorithm, "kid": "rsa"})
        signature = jwt.get_algorithm_by_name(algorithm).sign(
            f"{header}.{section(claims())}".encode(), pem * 8
        )
        token = f"{header}.{section(claims())}.{section(signature.hex())}"
        assert detail(token).startswith("alg must be one of ES256")


@pytest.mark.parametrize("algorithm", ["EdDSA", "ES256K", "rs256", "", "RS1", 5, None, ["RS256"]])
def test_other_algorithms_are_refused(algorithm: object) -> None:
    token = f"{section({'alg': algorithm, 'kid': 'rsa'})}.{section(claims())}.c2ln"
    assert detail(token).startswith("alg must be one of")


def test_keys_verify_only_their_algorithms() -> None:
    assert (
        detail(sign(claims(), rsa_key(name="second"), "RS256", kid="second")) == "signature does not verify"
    )
    assert validator().validate(sign(claims(), rsa_key(name="second"), "RS512", kid="second"))
    assert detail(sign(claims(), ec_key("P-256"), "ES256", kid="P-384")) == "signature does not verify"
    assert detail(sign(claims(), rsa_key(), "RS256", kid="P-256")) == "signature does not verify"


def test_signature_covers_header_and_claims() -> None:
    header, payload, signature = signed().split(".")
    assert detail(f"{header}.{section(claims(sub='root'))}.{signature}") == "signature does not verify"
    other_header = section({"alg": "RS256", "kid": "rsa", "typ": "x"})
    assert detail(f"{other_header}.{payload}.{signature}") == "signature does not verify"
    assert detail(f"{header}.{payload}.{section('x' * 256)}") == "signature does not verify"


def test_an_unknown_key_id_asks_for_the_keys_again() -> None:
    with pytest.raises(UnknownKey) as refused:
        validator().validate(sign(claims(), rsa_key(), kid="new"))
    assert refused.value.key_id == "new"
    assert detail(sign(claims(), rsa_key(), kid="new")) == "no key 'new' in the JSON web key set"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"crit": ["exp"]}, "critical extensions"),
        ({"crit": []}, "critical extensions"),
        ({"b64": True}, "critical extensions"),
        ({"kid": 5}, "kid must be"),
        ({"kid": "x" * 1025}, "kid must be"),
        ({"cty": "JWT"}, "another token"),
        ({"cty": "jwt"}, "another token"),
        ({"cty": 5}, "another token"),
    ],
)
def test_headers_that_change_the_meaning_are_refused(header: dict[str, object], message: str) -> None:
    assert validator().validate(raw(header={"alg": "RS256", "kid": "rsa", "typ": "JWT", "cty": "x"}))
    assert message in detail(raw(header={"alg": "RS256", "kid": "rsa", **header}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exp": None}, "exp is required"),
        ({"exp": "1"}, "exp must be a number"),
        ({"exp": True}, "exp must be a number"),
        ({"exp": -1}, "exp must be from"),
        ({"exp": 10**400}, "exp must be from"),
        ({"exp": 1 << 43}, "exp must be from"),
        ({"exp": NOW_S - 30}, "token expired 30000 ms ago"),
        ({"iat": None}, "iat is required"),
        ({"iat": "x"}, "iat must be"),
        ({"iat": NOW_S + 31}, "in the future"),
        ({"nbf": NOW_S + 31}, r"not valid for another 31000 ms"),
        ({"nbf": []}, "nbf must be"),
        ({"exp": NOW_S - 20}, "exp must not be before iat or nbf"),
        ({"exp": NOW_S + 5, "nbf": NOW_S + 6}, "exp must not be before iat or nbf"),
        ({"iss": ["https://idp"]}, "iss must be a str"),
        ({"iss": 5}, "iss must be a str"),
        ({"sub": None}, "sub must be"),
        ({"sub": " "}, "sub must be"),
        ({"sub": 5}, "sub must be"),
        ({"sub": ["alice"]}, "sub must be"),
        ({"scope": ""}, "scope must have"),
        ({"scope": ["a", ""]}, "scope must have"),
        ({"scope": ["a", 5]}, "scope must have"),
        ({"scope": ["a", " a"]}, "no scope twice"),
        ({"aud": "x"}, "sasl.oauthbearer.expected.audience"),
        ({"aud": []}, "sasl.oauthbearer.expected.audience"),
    ],
)
def test_claims_that_are_refused(changes: dict[str, Any], message: str) -> None:
    assert message in detail(raw(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29, "iat": NOW_S - 29, "nbf": NOW_S - 29},
        {"iat": NOW_S + 30},
        {"nbf": NOW_S + 30},
        {"nbf": 0},
        {"iat": 0},
        {"exp": (1 << 43) - 1},
        {"nbf": NOW_S - 1},
        {"scope": "a b"},
        {"scope": []},
        {"scope": 5},
        {"iss": None},
    ],
)
def test_claims_that_are_accepted(changes: dict[str, Any]) -> None:
    assert validator().validate(signed(**changes)).principal_name == "alice"


def test_a_scope_that_is_text_is_a_single_scope() -> None:
    assert validator().validate(signed(scope=" a b ")).scopes == frozenset({"a b"})


def test_clock_skew_is_configurable() -> None:
    assert "expired 0 ms ago" in detail(signed(exp=NOW_S), clock_skew_ms=0)
    assert validator(clock_skew_ms=0).validate(signed(exp=NOW_S + 1, nbf=NOW_S, iat=NOW_S))


@pytest.mark.parametrize("issuer", ["https://idp/", "HTTPS://idp", None, ["https://idp"], "https", 5])
def test_other_issuers_are_refused(issuer: object) -> None:
    assert detail(raw(iss=issuer), expected_issuer="https://idp").startswith("iss must be")


def test_expected_issuer_is_accepted() -> None:
    assert validator(expected_issuer="https://idp").validate(signed())


AUDIENCES = frozenset({"kafka", "kafka-2"})


@pytest.mark.parametrize("audience", ["kafka", ["x", "kafka-2"]])
def test_expected_audiences_are_accepted(audience: object) -> None:
    assert validator(expected_audiences=AUDIENCES).validate(signed(aud=audience))


@pytest.mark.parametrize("audience", [None, "x", "kafka-", [], ["x"], 5, ["kafka", 5], {"kafka": 1}])
def test_other_audiences_are_refused(audience: object) -> None:
    assert "aud must" in detail(raw(aud=audience), expected_audiences=AUDIENCES)


def test_names_of_claims_are_configurable() -> None:
    token = signed(email="a@b", roles=["r"])
    validated = validator(sub_claim="email", scope_claim="roles").validate(token)
    assert (validated.principal_name, validated.scopes) == ("a@b", frozenset({"r"}))
    for settings in ({"sub_claim": " "}, {"scope_claim": ""}, {"clock_skew_ms": -1}):
        with pytest.raises(ValueError, match="got"):
            validator(**settings)


HEADER = section({"alg": "RS256", "kid": "rsa"})
CLAIMS = section(claims())
REPEATED = section('{"alg":"RS256","alg":"none"}')


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "3 sections"),
        ("a", "3 sections"),
        ("a.b", "3 sections"),
        ("a.b.c.d", "3 sections"),
        (f"{HEADER}.{CLAIMS}.c2ln.c2ln", "3 sections"),
        ("..", "header must be base64url"),
        (f".{CLAIMS}.c2ln", "header must be base64url"),
        (f"{HEADER}.{CLAIMS}.", "token must have a signature"),
        (f"{HEADER}..c2ln", "payload must be base64url"),
        (f"{section('[]')}.{CLAIMS}.c2ln", "header must be a JSON object"),
        (f"{HEADER}.{section('[]')}.c2ln", "payload must be a JSON object"),
        (f"{HEADER}.{section('{')}.c2ln", "payload must be JSON"),
        (f"{HEADER}.{CLAIMS}.c2=n", "signature must be base64url"),
        (f"{HEADER}.{CLAIMS}.c2l+", "signature must be base64url"),
        (f"{HEADER}.{CLAIMS}.c2ln=", "signature must be base64url"),
        (f"{HEADER}.{CLAIMS}.c2lo\n", "signature must be base64url"),
        (f"{HEADER}.{CLAIMS}.\u00e4", "signature must be base64url"),
        (f"{REPEATED}.{CLAIMS}.c2ln", "header must be JSON without repeated members"),
    ],
)
def test_malformed_tokens_are_refused(token: str, message: str) -> None:
    assert message in detail(token)


@pytest.mark.parametrize(
    "text",
    [
        '{"sub":"a","sub":"b"}',
        '{"a":{"b":1,"b":2}}',
        '{"exp":NaN}',
        '{"exp":-Infinity}',
        '{"exp":' + "9" * 5000 + "}",
        "[" * 20_000,
        "\ufeff{}",
    ],
)
def test_claims_are_strict_json(text: str) -> None:
    assert detail(f"{HEADER}.{section(text)}.c2ln").startswith(
        "payload must be JSON without repeated members"
    )


def test_length_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    token = signed()
    monkeypatch.setattr(jwt_text, "TOKEN_LENGTH_MAX", len(token))
    assert validator().validate(token)
    monkeypatch.setattr(jwt_text, "TOKEN_LENGTH_MAX", len(token) - 1)
    assert "at most" in detail(token)


def test_signatures_are_not_malleable() -> None:
    token = signed()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(token[-1])
    assert detail(token[:-1] + alphabet[last ^ 1])


def test_details_hold_nothing_of_the_token() -> None:
    for token in (
        f"hunter2.{section(claims())}.hunter2",
        "hunter2",
        f"{section({'alg': 'hunter2'})}.e30.c2ln",
    ):
        assert "hunter2" not in detail(token)


USABLE = rsa_jwk(rsa_key(), kid="rsa")


@pytest.mark.parametrize(
    "key",
    [
        rsa_jwk(rsa_key(1024), kid="x"),
        rsa_jwk(rsa_key(), kid="x", use="enc"),
        rsa_jwk(rsa_key(), kid="x", key_ops=["encrypt"]),
        rsa_jwk(rsa_key(), kid="x", key_ops="verify"),
        rsa_jwk(rsa_key(), kid="x", alg="HS256"),
        rsa_jwk(rsa_key(), kid="x", alg="none"),
        rsa_jwk(rsa_key(), kid="x", alg=5),
        rsa_jwk(rsa_key(), kid=5),
        {**rsa_jwk(rsa_key(), kid="x"), "n": "!"},
        {**rsa_jwk(rsa_key(), kid="x"), "n": 5},
        {**rsa_jwk(rsa_key(), kid="x"), "e": number((1 << 33) + 1, 5)},
        {**rsa_jwk(rsa_key(), kid="x"), "e": number(1, 1)},
        {"kty": "RSA", "kid": "x"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "x", "alg": "HS256"},
        {"kty": "OKP", "crv": "Ed25519", "x": "c2VjcmV0", "kid": "x"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "x"},
        {"kty": "EC", "crv": ["P-256"], "kid": "x"},
        {**ec_jwk("P-256", kid="x"), "y": number(5, 32)},
        {"kid": "x"},
        "x",
        None,
    ],
)
def test_keys_that_cannot_be_used_are_skipped(key: Any) -> None:
    keys = parse_key_set(key_set_text(key, USABLE))
    assert len(keys) == 1
    assert not keys.has_key_id("x")
    with pytest.raises(ValueError, match="got none"):
        parse_key_set(key_set_text(key))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys":{}}', '{"keys":[]}', "[" * 100_000])
def test_malformed_key_sets(text: str) -> None:
    with pytest.raises(ValueError, match="JSON web key set"):
        parse_key_set(text)


def test_key_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = key_set_text(USABLE, USABLE)
    monkeypatch.setattr(jwt_keys, "TEXT_LENGTH_MAX", len(text) - 1)
    with pytest.raises(ValueError, match="characters"):
        parse_key_set(text)
    monkeypatch.setattr(jwt_keys, "TEXT_LENGTH_MAX", len(text))
    monkeypatch.setattr(jwt_keys, "KEYS_MAX", 1)
    with pytest.raises(ValueError, match="at most 1"):
        parse_key_set(text)


@given(st.one_of(st.text(), st.text(st.sampled_from("ey.J0-_=A"))))
def test_any_text_is_refused(token: str) -> None:
    assert detail(token)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(NOW_S + 60)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["sub", "exp", "iat", "nbf", "iss", "aud", "scope"]), JSON))
def test_any_signed_claims_are_judged(changes: dict[str, Any]) -> None:
    try:
        validated = validator().validate(raw(**changes))
    except SaslRefused as refused:
        assert str(refused) == "invalid_token"  # noqa: PT017 - either outcome is right
    else:
        assert validated.principal_name
        assert validated.expires_at_ms + 30_000 > NOW_MS
