"""SASL OAUTHBEARER on both sides."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.secret import Secret
from odradek.security.sasl.mechanism import InvalidCredentials, SaslClient, SaslRefused, SaslServer
from odradek.security.sasl.oauthbearer_client import OAuthBearerClient
from odradek.security.sasl.oauthbearer_messages import (
    MESSAGE_SIZE_MAX,
    InitialResponse,
    format_initial_response,
    parse_initial_response,
)
from odradek.security.sasl.oauthbearer_server import OAuthBearerServer, ValidatedToken

TOKEN = "eyJ.eyJ.c2ln"
VALIDATED = ValidatedToken("alice", 1234, frozenset({"a"}), 12)


def validate(token: str) -> ValidatedToken:
    if token != TOKEN:
        raise SaslRefused("invalid_token", "signature does not verify")
    return VALIDATED


def server() -> OAuthBearerServer:
    return OAuthBearerServer(validate)


def test_sides_follow_the_protocols() -> None:
    sides: tuple[SaslServer, SaslClient] = server(), OAuthBearerClient(Secret(TOKEN))
    assert not any(side.is_complete for side in sides)


@pytest.mark.parametrize(
    "message",
    [
        f"n,,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,a=alice,\x01auth=bearer   {TOKEN}\x01\x01",
        f"n,,\x01host=h\x01auth=BEARER {TOKEN}\x01port=1\x01\x01",
    ],
)
def test_authentication(message: str) -> None:
    side = server()
    assert (side.authorization_id, side.expires_at_ms, side.token) == ("", None, None)
    assert side.evaluate(message.encode()) == b""
    assert (side.is_complete, side.authorization_id, side.expires_at_ms) == (True, "alice", 1234)
    assert (side.is_token, side.token) == (False, VALIDATED)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "\x01",
        "n,,",
        "n,,\x01",
        "n,,\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}",
        f"n,,\x01auth=Bearer {TOKEN}\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01\x01x",
        f"n,,auth=Bearer {TOKEN}\x01\x01",
        f"n,\x01auth=Bearer {TOKEN}\x01\x01",
        f"y,,\x01auth=Bearer {TOKEN}\x01\x01",
        f"p=tls-unique,,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,alice,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,a=,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,a=a=,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,,x\x01auth=Bearer {TOKEN}\x01\x01",
        "n,,\x01host=h\x01\x01",
        "n,,\x01auth=\x01\x01",
        "n,,\x01auth=Bearer\x01\x01",
        "n,,\x01auth=Bearer \x01\x01",
        f"n,,\x01auth=Basic {TOKEN}\x01\x01",
        f"n,,\x01auth={TOKEN}\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}=x\x01\x01",
        f"n,,\x01auth=Bearer ={TOKEN}\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN} \x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01x=1\x01x=2\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01x\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01x=\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01x1=y\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01x=\u00e4\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}{'x' * MESSAGE_SIZE_MAX}\x01\x01",
    ],
)
def test_malformed_messages_get_the_standard_refusal(message: str) -> None:
    side = server()
    with pytest.raises(InvalidCredentials, match="SASL mechanism OAUTHBEARER") as refused:
        side.evaluate(message.encode())
    assert TOKEN not in refused.value.detail
    assert not side.is_complete


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidCredentials):
        server().evaluate(b"n,,\x01auth=Bearer \xff\x01\x01")


def test_another_authorization_id_is_refused() -> None:
    side = server()
    with pytest.raises(SaslRefused, match=r"authorization id \(bob\) that is different .* \(alice\)"):
        side.evaluate(f"n,a=bob,\x01auth=Bearer {TOKEN}\x01\x01".encode())
    assert not side.is_complete


def test_a_refused_token_gets_json_and_then_the_refusal() -> None:
    side = server()
    error = side.evaluate(b"n,,\x01auth=Bearer x.y.z\x01\x01")
    assert json.loads(error) == {"status": "invalid_token"}
    assert not side.is_complete
    with pytest.raises(SaslRefused) as refused:
        side.evaluate(b"\x01")
    assert (str(refused.value), refused.value.detail) == (error.decode(), "signature does not verify")
    with pytest.raises(SaslRefused):
        side.evaluate(b"\x01")


def test_a_refused_token_is_not_followed_by_another() -> None:
    side = server()
    side.evaluate(b"n,,\x01auth=Bearer x.y.z\x01\x01")
    with pytest.raises(SaslRefused):
        side.evaluate(f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode())
    assert not side.is_complete


def test_nothing_follows_completion() -> None:
    side = server()
    side.evaluate(f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode())
    with pytest.raises(SaslRefused):
        side.evaluate(b"\x01")
    assert (side.is_complete, side.authorization_id, side.extensions) == (False, "", {})


def test_client() -> None:
    client = OAuthBearerClient(Secret(TOKEN), {"logicalCluster": "lkc-1"})
    with pytest.raises(SaslRefused):
        OAuthBearerClient(Secret(TOKEN)).evaluate(b"")
    message = client.start()
    assert message == f"n,,\x01auth=Bearer {TOKEN}\x01logicalCluster=lkc-1\x01\x01".encode()
    assert not client.is_complete
    assert client.evaluate(b"") is None
    assert client.is_complete
    assert TOKEN not in repr(vars(client))
    with pytest.raises(SaslRefused):
        client.evaluate(b"")
    with pytest.raises(SaslRefused):
        client.start()


def test_client_acknowledges_an_error_once() -> None:
    client = OAuthBearerClient(Secret(TOKEN))
    client.start()
    assert client.evaluate(b'{"status":"invalid_token"}\n\xff') == b"\x01"
    assert (client.is_complete, client.error) == (False, '{"status":"invalid_token"}??')
    with pytest.raises(SaslRefused, match="invalid_token"):
        client.evaluate(b"")
    assert not client.is_complete


@pytest.mark.parametrize("token", ["", "=", "a=b", "a b", "a\x01b", "hunter2\n", "hunter2\u00e4"])
def test_client_refuses_tokens_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(ValueError, match="token must be") as refused:
        OAuthBearerClient(Secret(token))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01y"}, {"a": "\u00e4"}]
)
def test_client_refuses_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OAuthBearerClient(Secret(TOKEN), extensions)


LETTERS = st.text(st.sampled_from("abcXYZ"), min_size=1)


@given(
    st.from_regex(r"[a-c\-_.~+/01]+=*", fullmatch=True),
    st.text().filter(lambda text: "\0" not in text and "\x01" not in text),
    st.dictionaries(LETTERS, st.text(st.sampled_from("aZ09 =,;\t\r\n~!"), min_size=1)),
)
def test_initial_responses_round_trip(token: str, authorization_id: str, extensions: dict[str, str]) -> None:
    response = InitialResponse(Secret(token), authorization_id, extensions)
    assert parse_initial_response(format_initial_response(response)) == response
