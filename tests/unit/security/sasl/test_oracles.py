"""The mechanisms against the client sides of kafka-python and aiokafka."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest
from aiokafka.conn import SaslPlainAuthenticator, ScramAuthenticator

from odradek.model.secret import Secret
from odradek.security.sasl.mechanism import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    InvalidCredentials,
    SaslRefused,
)
from odradek.security.sasl.oauthbearer_client import OAuthBearerClient
from odradek.security.sasl.oauthbearer_server import OAuthBearerServer, ValidatedToken
from odradek.security.sasl.plain import PlainServer
from odradek.security.sasl.scram_client import ScramClient
from odradek.security.sasl.scram_credential import create_credential
from odradek.security.sasl.scram_server import ScramCredentials, ScramServer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importlib.resources.read_text in kafka-python
    from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
    from kafka.net.sasl.plain import SaslMechanismPlain
    from kafka.net.sasl.scram import ScramClient as KafkaPythonClient

MECHANISMS = [SCRAM_SHA_256, SCRAM_SHA_512]


def server(mechanism: str, username: str, password: str) -> ScramServer:
    credential = create_credential(mechanism, Secret(password), os.urandom, 4097)
    return ScramServer(
        mechanism, ScramCredentials({username: credential}.get, lambda _: None, os.urandom, bytes(32))
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("username", "password"), [("user", "pencil"), ("\u00fcser", "p\u00e4ss,=\u20ac")])
def test_kafka_python_authenticates(mechanism: str, username: str, password: str) -> None:
    broker = server(mechanism, username, password)
    peer = KafkaPythonClient(username, password, mechanism)
    peer.process_server_first_message(broker.evaluate(peer.first_message()))
    peer.process_server_final_message(broker.evaluate(peer.final_message()))
    assert (broker.is_complete, broker.authorization_id) == (True, username)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_with_a_wrong_password_is_refused(mechanism: str) -> None:
    broker = server(mechanism, "user", "pencil")
    peer = KafkaPythonClient("user", "pen", mechanism)
    peer.process_server_first_message(broker.evaluate(peer.first_message()))
    with pytest.raises(InvalidCredentials):
        broker.evaluate(peer.final_message())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_messages_are_those_of_kafka_python(mechanism: str) -> None:
    ours = ScramClient(mechanism, "user", Secret("p\u00e4ss"), os.urandom)
    theirs = KafkaPythonClient("user", "p\u00e4ss", mechanism)
    theirs.nonce = ours._first.nonce.encode()
    first = ours.start()
    assert theirs.first_message() == first
    broker = server(mechanism, "user", "p\u00e4ss")
    challenge = broker.evaluate(first)
    theirs.process_server_first_message(challenge)
    final = ours.evaluate(challenge)
    assert final is not None
    assert final == theirs.final_message()
    outcome = broker.evaluate(final)
    theirs.process_server_final_message(outcome)
    assert ours.evaluate(outcome) is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("username", ["user", "a,b=c", "=2C"])
def test_aiokafka_authenticates(mechanism: str, username: str) -> None:
    broker = server(mechanism, username, "pencil")
    peer = ScramAuthenticator(
        loop=None, sasl_plain_password="pencil", sasl_plain_username=username, sasl_mechanism=mechanism
    )
    answer: bytes | None = None
    steps = 0
    while (step := peer._step(answer)) is not None:
        answer = broker.evaluate(step[0])
        steps += 1
    assert (steps, broker.is_complete, broker.authorization_id) == (2, True, username)


def plain_messages(username: str, password: str) -> list[bytes]:
    config: dict[str, Any] = {"sasl_plain_username": username, "sasl_plain_password": password}
    aiokafka = SaslPlainAuthenticator(loop=None, **config)
    return [SaslMechanismPlain(**config).auth_bytes(), aiokafka._step(None)[0]]


def test_plain_clients_authenticate() -> None:
    for message in plain_messages("\u00fcser", "p\u00e4ss"):
        broker = PlainServer(lambda username, password: (username, password) == ("\u00fcser", "p\u00e4ss"))
        assert broker.evaluate(message) == b""
        assert broker.authorization_id == "\u00fcser"


class Provider(AbstractTokenProvider):
    def token(self) -> str:
        return "a.b.c"

    def extensions(self) -> dict[str, str]:
        return {"logicalCluster": "lkc-1", "id": "x y"}


def test_oauthbearer_of_kafka_python_authenticates() -> None:
    broker = OAuthBearerServer({"a.b.c": ValidatedToken("alice", 1)}.__getitem__)
    peer = SaslMechanismOAuth(sasl_oauth_token_provider=Provider())
    message = peer.auth_bytes()
    ours = OAuthBearerClient(Secret("a.b.c"), {"logicalCluster": "lkc-1", "id": "x y"})
    assert message == ours.start()
    peer.receive(broker.evaluate(message))
    assert peer.is_authenticated()
    assert (broker.authorization_id, broker.extensions) == ("alice", Provider().extensions())


def refuse(_: str) -> ValidatedToken:
    raise SaslRefused("invalid_token", "expired")


def test_oauthbearer_of_kafka_python_acknowledges_a_refusal() -> None:
    broker = OAuthBearerServer(refuse)
    peer = SaslMechanismOAuth(sasl_oauth_token_provider=Provider())
    peer.receive(broker.evaluate(peer.auth_bytes()))
    assert not peer.is_done()
    with pytest.raises(SaslRefused) as refused:
        broker.evaluate(peer.auth_bytes())
    assert refused.value.detail == "expired"
