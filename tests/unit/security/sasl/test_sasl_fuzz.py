"""Any bytes to any side in any state: an answer or SaslRefused, and never authentication."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.security.sasl.jwt_factory import NOW_MS, key_set_text, rsa_jwk, rsa_key

from odradek.model.secret import Secret
from odradek.security.sasl.jwt_keys import parse_key_set
from odradek.security.sasl.jwt_validator import JwtSettings, JwtValidator
from odradek.security.sasl.mechanism import SaslClient, SaslRefused, SaslServer
from odradek.security.sasl.mechanisms import (
    MECHANISMS,
    ClientCredentials,
    ServerCredentials,
    create_client,
    create_server,
)
from odradek.security.sasl.plain_users import PlainUsers
from odradek.security.sasl.scram_credential import create_credential
from odradek.security.sasl.scram_server import ScramCredentials, TokenCredential

PASSWORD = Secret("correct-horse-battery-staple")
KEYS = parse_key_set(key_set_text(rsa_jwk(rsa_key())))


def scram(mechanism: str) -> ScramCredentials:
    credential = create_credential(mechanism, PASSWORD, os.urandom)
    token = TokenCredential("alice", 1, credential)
    return ScramCredentials({"user": credential}.get, {"id": token}.get, os.urandom, bytes(32))


SERVER = ServerCredentials(
    plain=PlainUsers({"user": PASSWORD}, bytes(32)).verify,
    scram={mechanism: scram(mechanism) for mechanism in MECHANISMS if mechanism.startswith("SCRAM")},
    oauthbearer=JwtValidator(JwtSettings(), lambda: KEYS, lambda: NOW_MS).validate,
)

PIECES = st.sampled_from(
    [
        *(
            b"n,,",
            b"n,a=user,",
            b"y,,",
            b"p=x,,",
            b"n=user",
            b"n=id",
            b",",
            b"r=N",
            b"tokenauth=true",
            b"x=y",
        ),
        *(b"c=biws", b"p=AA==", b"v=AA==", b"s=QQ==", b"i=4096", b"e=x", b"m=x", b"=", b"=2C", b"\0", b"\1"),
        *(b"\0user\0", b"auth=Bearer ", b"e30.e30.e30", b"{}", b"\xff"),
    ]
)
MESSAGES = st.lists(
    st.one_of(st.binary(max_size=40), st.lists(PIECES, max_size=8).map(b"".join), st.just(b"valid")),
    min_size=1,
    max_size=5,
)


def answered(evaluate: Callable[[bytes], bytes | None], message: bytes) -> bytes | None:
    """Return the answer, or None if the exchange is refused without showing the password."""
    try:
        return evaluate(message)
    except SaslRefused as refused:
        texts = (str(refused), refused.detail)
    assert texts[0]
    assert not any(PASSWORD.reveal() in text for text in texts)
    return None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(messages=MESSAGES)
def test_servers(mechanism: str, messages: list[bytes]) -> None:
    server: SaslServer = create_server(mechanism, MECHANISMS, SERVER)
    for message in messages:
        first = (
            b"n,,n=user,r=N" if mechanism.startswith("SCRAM") else b"n,,\x01auth=Bearer e30.e30.e30\x01\x01"
        )
        answered(server.evaluate, first if message == b"valid" else message)
        assert not server.is_complete
        assert server.authorization_id == ""
        assert server.expires_at_ms is None


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name.startswith("SCRAM")])
@given(messages=MESSAGES)
def test_clients(mechanism: str, messages: list[bytes]) -> None:
    client: SaslClient = create_client(mechanism, ClientCredentials("user", PASSWORD, os.urandom))
    server = create_server(mechanism, MECHANISMS, SERVER)
    challenge = server.evaluate(client.start())
    for message in messages:
        answered(client.evaluate, challenge if message == b"valid" else message)
        assert not client.is_complete


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
@given(messages=MESSAGES, is_started=st.booleans())
def test_clients_without_proof_complete_only_on_an_empty_answer(
    mechanism: str, messages: list[bytes], is_started: bool
) -> None:
    client = create_client(mechanism, ClientCredentials("user", Secret("a.b.c"), os.urandom))
    if is_started:
        client.start()
    for number, message in enumerate(messages):
        answered(client.evaluate, message)
        assert client.is_complete == (is_started and number == 0 and message == b"")
