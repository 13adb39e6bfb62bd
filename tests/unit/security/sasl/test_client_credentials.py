"""Requests for access tokens, and their responses."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.security.sasl.jwt_factory import NOW_S, claims, rsa_key, section, sign, unsecured

from odradek.model.secret import Secret
from odradek.security.sasl.client_credentials import (
    RESPONSE_SIZE_MAX,
    ClientCredentialsRequest,
    TokenEndpointError,
    parse_token_response,
)


def response(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_request() -> None:
    request = ClientCredentialsRequest("id", Secret("hunter2"), " a b/c ")
    assert request.headers() == {
        "Accept": "application/json",
        "Authorization": "Basic aWQ6aHVudGVyMg==",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    assert request.body() == b"grant_type=client_credentials&scope=a+b%2Fc"
    assert "hunter2" not in repr(request)


@pytest.mark.parametrize("scope", [None, "", "  "])
def test_scope_is_optional(scope: str | None) -> None:
    assert ClientCredentialsRequest("id", Secret("s"), scope).body() == b"grant_type=client_credentials"


def test_credentials_may_be_urlencoded() -> None:
    request = ClientCredentialsRequest("a:b*~", Secret("c d\u00e4"), None, is_urlencoded=True)
    assert request.headers()["Authorization"] == "Basic YSUzQWIqJTdFOmMrZCVDMyVBNA=="
    encoded = base64.b64encode("a:b*~:c d\u00e4".encode()).decode()
    assert request._replace(is_urlencoded=False).headers()["Authorization"] == f"Basic {encoded}"


@pytest.mark.parametrize(("client_id", "secret"), [("", "s"), (" ", "s"), ("id", ""), ("id", "\t")])
def test_empty_credentials_are_refused(client_id: str, secret: str) -> None:
    with pytest.raises(ValueError, match="non-empty"):
        ClientCredentialsRequest(client_id, Secret(secret)).headers()


@pytest.mark.parametrize("status", [200, 201])
def test_response(status: int) -> None:
    text = sign(claims(scope=["a"]), rsa_key())
    token = parse_token_response(status, response(access_token=f" {text} ", expires_in=5))
    assert token.token.reveal() == text
    assert (token.principal_name, token.expires_at_ms) == ("alice", (NOW_S + 600) * 1000)
    assert (token.issued_at_ms, token.scopes) == ((NOW_S - 10) * 1000, frozenset({"a"}))
    assert text not in repr(token)


def test_names_of_claims() -> None:
    text = sign(claims(sub=None, email="a@b", roles="r", iat=None), rsa_key())
    token = parse_token_response(200, response(access_token=text), "roles", "email")
    assert (token.principal_name, token.scopes, token.issued_at_ms) == ("a@b", frozenset({"r"}), None)


@pytest.mark.parametrize(
    "body",
    [
        b"hunter2",
        b"[]",
        b"{}",
        b"\xff",
        response(access_token=""),
        response(access_token=" "),
        response(access_token=5),
        response(access_token="hunter2"),
        response(access_token="hunter2.hunter2.hunter2"),
        response(access_token=unsecured(claims())),
        response(access_token=f"{section({'alg': 'RS256'})}.{section(claims(exp=None))}.c2ln"),
        response(access_token=f"{section({'alg': 'RS256'})}.{section(claims(sub=None))}.c2ln"),
        response(access_token=f"{section({'alg': 'RS256'})}.{section(claims())}.c2ln\r\nx"),
    ],
)
def test_responses_without_a_token(body: bytes) -> None:
    with pytest.raises(TokenEndpointError) as refused:
        parse_token_response(200, body)
    assert not refused.value.is_retriable
    assert "hunter2" not in str(refused.value)


def test_responses_are_bounded() -> None:
    body = response(access_token=sign(claims(), rsa_key())).ljust(RESPONSE_SIZE_MAX)
    assert parse_token_response(200, body).principal_name == "alice"
    with pytest.raises(TokenEndpointError, match="response must be <= 1048576 bytes, got 1048577"):
        parse_token_response(200, body + b" ")


def test_empty_response_is_retriable() -> None:
    with pytest.raises(TokenEndpointError, match="no body") as refused:
        parse_token_response(200, b"")
    assert refused.value.is_retriable


@pytest.mark.parametrize(
    ("status", "is_retriable"),
    [
        (400, False),
        (401, False),
        (404, False),
        (429, True),
        (500, True),
        (501, False),
        (503, True),
        (302, True),
    ],
)
def test_statuses(status: int, is_retriable: bool) -> None:
    with pytest.raises(TokenEndpointError, match=f"status {status}") as refused:
        parse_token_response(status, b"x")
    assert refused.value.is_retriable == is_retriable


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            response(error="invalid_client", error_description="no such client"),
            "invalid_client - no such client",
        ),
        (response(errorCode="E1", errorSummary="bad"), "E1 - bad"),
        (response(error={"code": 5}), '{"code": 5} - null'),
        (b"<html>\n\x1b[31m", "<html>??[31m"),
        (b"", "no body"),
        (b"x" * 5000, "x" * 1000),
    ],
)
def test_errors_are_quoted_bounded_and_printable(body: bytes, text: str) -> None:
    with pytest.raises(TokenEndpointError) as refused:
        parse_token_response(401, body)
    assert str(refused.value) == f"token endpoint answered with status 401: {text}"


@given(st.integers(100, 599), st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_response_is_read_or_refused(status: int, body: bytes) -> None:
    with pytest.raises(TokenEndpointError):
        parse_token_response(status, body)
