"""SCRAM exchanges: vectors, both sides against each other, and a refusal in each step."""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.secret import Secret
from odradek.security.sasl import scram_client, scram_credential, scram_server
from odradek.security.sasl.mechanism import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    InvalidCredentials,
    SaslClient,
    SaslRefused,
    SaslServer,
)
from odradek.security.sasl.scram_client import ITERATIONS_LIMIT, ScramClient
from odradek.security.sasl.scram_credential import (
    ScramCredential,
    create_credential,
    credential_from_salted_password,
    salted_password,
)
from odradek.security.sasl.scram_proof import client_proof
from odradek.security.sasl.scram_server import (
    ScramCredentials,
    ScramServer,
    TokenCredential,
    decoy_credential,
)

MECHANISMS = [SCRAM_SHA_256, SCRAM_SHA_512]
PASSWORD = Secret("pencil")
DECOY_KEY = bytes(range(32))
CREDENTIALS = {mechanism: create_credential(mechanism, PASSWORD, os.urandom) for mechanism in MECHANISMS}
TOKEN_PASSWORD = Secret("dG9rZW4=")
TOKENS = {
    mechanism: TokenCredential("alice", 123, create_credential(mechanism, TOKEN_PASSWORD, os.urandom))
    for mechanism in MECHANISMS
}


def server(mechanism: str = SCRAM_SHA_256, credential: ScramCredential | None = None) -> ScramServer:
    return ScramServer(
        mechanism,
        ScramCredentials(
            {"user": credential or CREDENTIALS[mechanism]}.get,
            {"token-id": TOKENS[mechanism]}.get,
            os.urandom,
            DECOY_KEY,
        ),
    )


def client(
    mechanism: str = SCRAM_SHA_256, username: str = "user", password: Secret = PASSWORD
) -> ScramClient:
    return ScramClient(mechanism, username, password, os.urandom)


def attribute(message: bytes, name: str) -> str:
    return next(part[2:] for part in message.decode().split(",") if part.startswith(f"{name}="))


def replaced(message: bytes, name: str, value: str) -> bytes:
    parts = [
        f"{name}={value}" if part.startswith(f"{name}=") else part for part in message.decode().split(",")
    ]
    return ",".join(parts).encode()


VECTORS = [
    (
        "SCRAM-SHA-1",
        "sha1",
        b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    (
        "SCRAM-SHA-256",
        "sha256",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]


@pytest.mark.parametrize(
    ("mechanism", "hash_name", "first", "challenge", "final", "outcome"),
    VECTORS,
    ids=lambda value: str(value)[:12],
)
def test_vectors_of_rfc_5802_and_7677(
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
    hash_name: str,
    first: bytes,
    challenge: bytes,
    final: bytes,
    outcome: bytes,
) -> None:
    monkeypatch.setitem(scram_credential.HASHES, mechanism, hash_name)
    nonce = attribute(first, "r")
    monkeypatch.setattr(scram_client, "random_text", lambda _: nonce)
    monkeypatch.setattr(scram_server, "random_text", lambda _: attribute(challenge, "r")[len(nonce) :])
    salt = base64.b64decode(attribute(challenge, "s"))
    salted = salted_password(mechanism, PASSWORD, salt, 4096)
    credential = credential_from_salted_password(mechanism, salted, salt, 4096)
    credentials = ScramCredentials({"user": credential}.get, lambda _: None, os.urandom, DECOY_KEY)
    broker, peer = ScramServer(mechanism, credentials), client(mechanism)
    assert peer.start() == first
    assert broker.evaluate(first) == challenge
    assert peer.evaluate(challenge) == final
    assert broker.evaluate(final) == outcome
    assert peer.evaluate(outcome) is None
    assert (broker.is_complete, peer.is_complete, broker.authorization_id) == (True, True, "user")


def test_sides_follow_the_protocols() -> None:
    sides: tuple[SaslServer, SaslClient] = server(), client()
    assert not any(side.is_complete for side in sides)


def run(broker: ScramServer, peer: ScramClient) -> None:
    message: bytes | None = peer.start()
    while message is not None:
        message = peer.evaluate(broker.evaluate(message))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_users(mechanism: str) -> None:
    broker, peer = server(mechanism), client(mechanism)
    assert (broker.authorization_id, broker.is_complete) == ("", False)
    run(broker, peer)
    assert (broker.is_complete, peer.is_complete) == (True, True)
    assert (broker.authorization_id, broker.expires_at_ms, broker.is_token) == ("user", None, False)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tokens_authenticate_their_owner(mechanism: str) -> None:
    broker = server(mechanism)
    run(broker, ScramClient(mechanism, "token-id", TOKEN_PASSWORD, os.urandom, is_token=True))
    assert (broker.authorization_id, broker.expires_at_ms, broker.is_token) == ("alice", 123, True)


@pytest.mark.parametrize(("username", "is_token"), [("token-id", False), ("user", True)])
def test_tokens_and_users_are_apart(username: str, is_token: bool) -> None:
    broker = server()
    password = TOKEN_PASSWORD if username == "token-id" else PASSWORD
    with pytest.raises(InvalidCredentials) as refused:
        run(broker, ScramClient(SCRAM_SHA_256, username, password, os.urandom, is_token=is_token))
    assert refused.value.detail == f"unknown {'token' if is_token else 'user'} {username!r}"
    assert not broker.is_complete


def test_own_name_as_authorization_id() -> None:
    broker = server()
    run(broker, ScramClient(SCRAM_SHA_256, "user", PASSWORD, os.urandom, authorization_id="user"))
    assert broker.authorization_id == "user"


@pytest.mark.parametrize("username", ["user", "nobody"])
def test_another_authorization_id_is_refused(username: str) -> None:
    broker = server()
    with pytest.raises(SaslRefused, match="authorization id that is different from username"):
        broker.evaluate(f"n,a=admin,n={username},r=N".encode())
    assert not broker.is_complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_unknown_users_are_refused_like_wrong_passwords(mechanism: str) -> None:
    refusals = []
    for username, password in (("user", Secret("wrong")), ("nobody", PASSWORD)):
        broker = server(mechanism)
        with pytest.raises(InvalidCredentials) as refused:
            run(broker, client(mechanism, username, password))
        refusals.append(refused.value)
        assert not broker.is_complete
    assert str(refusals[0]) == str(refusals[1])
    assert [refusal.detail for refusal in refusals] == ["wrong password of 'user'", "unknown user 'nobody'"]


def test_challenges_of_unknown_users_are_those_of_default_credentials() -> None:
    salts = set()
    for _ in range(2):
        challenge = server().evaluate(b"n,,n=nobody,r=N")
        assert attribute(challenge, "i") == "4096"
        salts.add(base64.b64decode(attribute(challenge, "s")))
    (salt,) = salts
    assert int(salt, 36) < 1 << 130
    assert salt != base64.b64decode(attribute(server().evaluate(b"n,,n=other,r=N"), "s"))
    assert abs(len(salt) - len(CREDENTIALS[SCRAM_SHA_256].salt)) <= 3


def test_knowing_the_keys_of_a_decoy_does_not_help() -> None:
    decoy = decoy_credential(SCRAM_SHA_256, "nobody", DECOY_KEY)
    broker = server()
    challenge = broker.evaluate(b"n,,n=nobody,r=N")
    without_proof = f"c=biws,r={attribute(challenge, 'r')}"
    message = f"n=nobody,r=N,{challenge.decode()},{without_proof}".encode()
    proof = base64.b64encode(hmac.digest(decoy.stored_key, message, "sha256")).decode()
    with pytest.raises(InvalidCredentials, match="due to invalid credentials"):
        broker.evaluate(f"{without_proof},p={proof}".encode())


def test_decoy_key_is_long_enough() -> None:
    with pytest.raises(ValueError, match="at least 32"):
        decoy_credential(SCRAM_SHA_256, "nobody", bytes(31))


def test_server_nonces_are_new_each_time() -> None:
    assert len({server().evaluate(b"n,,n=user,r=N") for _ in range(20)}) == 20


def test_weak_stored_credentials_are_refused() -> None:
    weak = CREDENTIALS[SCRAM_SHA_256]._replace(iterations=4095)
    with pytest.raises(InvalidCredentials) as refused:
        server(credential=weak).evaluate(b"n,,n=user,r=N")
    assert "must be >= 4096, got 4095" in refused.value.detail


BAD_FINALS: dict[str, Callable[[bytes], bytes]] = {
    "nonce of another exchange": lambda final: replaced(final, "r", "N" * 40),
    "longer nonce": lambda final: replaced(final, "r", attribute(final, "r") + "x"),
    "shorter nonce": lambda final: replaced(final, "r", attribute(final, "r")[:-1]),
    "channel binding y": lambda final: replaced(final, "c", base64.b64encode(b"y,,").decode()),
    "channel binding p": lambda final: replaced(final, "c", base64.b64encode(b"p=tls-unique,,x").decode()),
    "channel binding with authzid": lambda final: replaced(final, "c", base64.b64encode(b"n,a=x,").decode()),
    "other proof": lambda final: replaced(final, "p", base64.b64encode(bytes(32)).decode()),
    "short proof": lambda final: replaced(final, "p", base64.b64encode(bytes(31)).decode()),
    "long proof": lambda final: replaced(final, "p", base64.b64encode(bytes(64)).decode()),
    "no proof": lambda final: final.rpartition(b",")[0],
    "added extension": lambda final: final.replace(b",p=", b",x=y,p="),
    "empty": lambda final: b"",
    "first message again": lambda final: b"n,,n=user,r=N",
}


@pytest.mark.parametrize("name", BAD_FINALS)
def test_bad_final_messages_are_refused(name: str) -> None:
    broker, peer = server(), client()
    final = peer.evaluate(broker.evaluate(peer.start()))
    assert final is not None
    with pytest.raises(InvalidCredentials):
        broker.evaluate(BAD_FINALS[name](final))
    assert not broker.is_complete
    assert broker.authorization_id == ""
    with pytest.raises(SaslRefused):  # a second try in the same exchange
        broker.evaluate(final)
    assert not broker.is_complete


def proven_final(first_bare: str, challenge: bytes, without_proof: str) -> bytes:
    """Return a final message with the proof of a client that knows the password."""
    salt = base64.b64decode(attribute(challenge, "s"))
    salted = salted_password(SCRAM_SHA_256, PASSWORD, salt, int(attribute(challenge, "i")))
    message = f"{first_bare},{challenge.decode()},{without_proof}".encode()
    proof = base64.b64encode(client_proof(SCRAM_SHA_256, salted, message)).decode()
    return f"{without_proof},p={proof}".encode()


@pytest.mark.parametrize(
    ("header", "without_proof", "detail"),
    [
        ("n,,", "c=biws,r={nonce}x", "nonce of the final message"),
        ("n,,", "c=biws,r=N", "nonce of the final message"),
        ("n,,", "c=eSws,r={nonce}", "channel binding"),  # y,,
        ("n,,", "c=cD14LCw=,r={nonce}", "channel binding"),  # p=x,,
        ("n,,", "c=bixhPXVzZXIs,r={nonce}", "channel binding"),  # n,a=user,
        ("n,a=user,", "c=biws,r={nonce}", "channel binding"),
    ],
)
def test_a_proof_does_not_excuse_another_nonce_or_binding(
    header: str, without_proof: str, detail: str
) -> None:
    broker = server()
    challenge = broker.evaluate(f"{header}n=user,r=N".encode())
    final = proven_final("n=user,r=N", challenge, without_proof.format(nonce=attribute(challenge, "r")))
    with pytest.raises(InvalidCredentials) as refused:
        broker.evaluate(final)
    assert detail in refused.value.detail
    assert not broker.is_complete


@pytest.mark.parametrize(
    ("header", "without_proof"),
    [("n,,", "c=biws,r={nonce}"), ("n,,", "c=biws,r={nonce},x=y"), ("n,a=user,", "c=bixhPXVzZXIs,r={nonce}")],
)
def test_the_proof_covers_the_messages_as_sent(header: str, without_proof: str) -> None:
    broker = server()
    challenge = broker.evaluate(f"{header}n=user,r=N,z=b".encode())
    nonce = attribute(challenge, "r")
    broker.evaluate(proven_final("n=user,r=N,z=b", challenge, without_proof.format(nonce=nonce)))
    assert broker.is_complete


def test_malformed_first_messages_get_the_standard_refusal() -> None:
    broker = server()
    with pytest.raises(InvalidCredentials) as refused:
        broker.evaluate(b"p=tls-unique,,n=user,r=N")
    assert "channel binding is not supported" in refused.value.detail
    with pytest.raises(SaslRefused, match="no further"):
        broker.evaluate(b"n,,n=user,r=N")


@pytest.mark.parametrize("size", [1, 31, 33, 64])
def test_proofs_of_another_size_are_wrong_passwords(size: int) -> None:
    broker = server()
    challenge = broker.evaluate(b"n,,n=user,r=N")
    proof = base64.b64encode(bytes(size)).decode()
    with pytest.raises(InvalidCredentials) as refused:
        broker.evaluate(f"c=biws,r={attribute(challenge, 'r')},p={proof}".encode())
    assert refused.value.detail == "wrong password of 'user'"


def test_nothing_follows_completion() -> None:
    broker, peer = server(), client()
    run(broker, peer)
    with pytest.raises(SaslRefused):
        peer.evaluate(b"v=AA==")
    assert not peer.is_complete
    with pytest.raises(SaslRefused):
        broker.evaluate(b"n,,n=user,r=N")
    assert (broker.is_complete, broker.authorization_id) == (False, "")


BAD_CHALLENGES: dict[str, Callable[[bytes], bytes]] = {
    "nonce of another exchange": lambda challenge: replaced(challenge, "r", "N" * 60),
    "nonce of the client alone": lambda challenge: replaced(challenge, "r", attribute(challenge, "r")[:-24]),
    "too few iterations": lambda challenge: replaced(challenge, "i", "4095"),
    "too many iterations": lambda challenge: replaced(challenge, "i", str(ITERATIONS_LIMIT + 1)),
    "mandatory extension": lambda challenge: b"m=x," + challenge,
    "no salt": lambda challenge: replaced(challenge, "s", ""),
    "empty": lambda challenge: b"",
    "final message": lambda challenge: b"v=AA==",
    "error": lambda challenge: b"e=unknown-user",
}


@pytest.mark.parametrize("name", BAD_CHALLENGES)
def test_client_refuses_bad_challenges(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(scram_server, "random_text", lambda _: "S" * 24)
    peer = client()
    challenge = server().evaluate(peer.start())
    with pytest.raises(SaslRefused):
        peer.evaluate(BAD_CHALLENGES[name](challenge))
    assert not peer.is_complete
    with pytest.raises(SaslRefused):
        peer.evaluate(challenge)


BAD_OUTCOMES: dict[str, Callable[[bytes], bytes]] = {
    "other signature": lambda outcome: b"v=" + base64.b64encode(bytes(32)),
    "short signature": lambda outcome: b"v=" + base64.b64encode(base64.b64decode(outcome[2:])[:-1]),
    "no signature": lambda outcome: b"v=",
    "error": lambda outcome: b"e=invalid-proof",
    "empty": lambda outcome: b"",
    "extension alone": lambda outcome: b"x=y",
}


@pytest.mark.parametrize("name", BAD_OUTCOMES)
def test_client_refuses_a_broker_that_does_not_prove_itself(name: str) -> None:
    broker, peer = server(), client()
    final = peer.evaluate(broker.evaluate(peer.start()))
    assert final is not None
    outcome = broker.evaluate(final)
    with pytest.raises(SaslRefused):
        peer.evaluate(BAD_OUTCOMES[name](outcome))
    assert not peer.is_complete
    with pytest.raises(SaslRefused):
        peer.evaluate(outcome)
    assert not peer.is_complete


def test_client_names_the_error_of_the_broker() -> None:
    broker, peer = server(), client()
    peer.evaluate(broker.evaluate(peer.start()))
    with pytest.raises(SaslRefused, match="with error 'invalid-proof'"):
        peer.evaluate(b"e=invalid-proof")


def test_client_is_started_once_and_first() -> None:
    peer = client()
    with pytest.raises(SaslRefused):
        peer.evaluate(b"r=N,s=QQ==,i=4096")
    peer = client()
    peer.start()
    with pytest.raises(SaslRefused):
        peer.start()


@pytest.mark.parametrize(
    ("mechanism", "username", "password"),
    [
        ("SCRAM-SHA-1", "a", "b"),
        (SCRAM_SHA_256, "", "b"),
        (SCRAM_SHA_256, "a\0", "b"),
        (SCRAM_SHA_256, "a", ""),
    ],
)
def test_client_refuses_what_cannot_be_sent(mechanism: str, username: str, password: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        ScramClient(mechanism, username, Secret(password), os.urandom)


def test_no_key_is_shown() -> None:
    broker, peer = server(), client()
    peer.evaluate(broker.evaluate(peer.start()))
    credential = CREDENTIALS[SCRAM_SHA_256]
    shown = f"{broker._exchange!r} {broker._exchange} {vars(peer)['_password']}"
    for secret in (str(credential.stored_key), str(credential.server_key), str(credential.salt), "pencil"):
        assert secret not in shown


NAMES = st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text)


@given(NAMES, NAMES, st.sampled_from(MECHANISMS), st.booleans())
def test_both_sides_round_trip(username: str, password: str, mechanism: str, is_token: bool) -> None:
    credential = create_credential(mechanism, Secret(password), os.urandom)
    token = TokenCredential("owner", 5, credential)
    broker = ScramServer(
        mechanism,
        ScramCredentials(
            lambda name: credential if name == username and not is_token else None,
            lambda name: token if name == username and is_token else None,
            os.urandom,
            DECOY_KEY,
        ),
    )
    peer = ScramClient(mechanism, username, Secret(password), os.urandom, is_token=is_token)
    run(broker, peer)
    assert broker.authorization_id == ("owner" if is_token else username)
    assert peer.is_complete
