"""Our clients on a secured Apache Kafka: let in with the right credentials, refused with others."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from tests.secured_kafka.secured_kafka import (
    EXPIRED_SESSION,
    REAUTHENTICATION,
    SESSION_LIFETIME_MS,
    SecuredKafka,
)
from tests.security.clients import CLIENTS, MESSAGE
from tests.support.secured_broker import MECHANISMS

from odradek import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    Admin,
    AuthenticationFailed,
    AuthorizationFailed,
    Consumer,
    Producer,
    ResourcePattern,
    TopicPartition,
)

OUR_CLIENTS = ("odradek", "odradek.aio")
WAYS = (
    ("SSL", None),
    *((protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
@pytest.mark.parametrize("client", OUR_CLIENTS)
def test_record_goes_there_and_back(
    kafka: SecuredKafka, topic: str, client: str, protocol: str, mechanism: str | None
) -> None:
    token = kafka.tokens.issue("alice") if mechanism == "OAUTHBEARER" else None
    assert CLIENTS[client](kafka, topic, protocol, mechanism, "alice", token) == MESSAGE


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", OUR_CLIENTS)
def test_wrong_credentials_are_refused(kafka: SecuredKafka, topic: str, client: str, mechanism: str) -> None:
    user = f"nobody-{uuid.uuid4()}"
    token = kafka.tokens.issue("alice", lifetime_s=-3600) if mechanism == "OAUTHBEARER" else None
    with pytest.raises(AuthenticationFailed) as refusal:
        CLIENTS[client](kafka, topic, "SASL_SSL", mechanism, user, token)
    assert f"{user}-secret" not in str(refusal.value)
    assert (token or "no token") not in str(refusal.value)


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        ("PLAIN", "Invalid username or password"),
        ("SCRAM-SHA-256", "invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("SCRAM-SHA-512", "invalid credentials with SASL mechanism SCRAM-SHA-512"),
    ],
)
def test_wrong_password_of_an_existing_user_is_refused(
    kafka: SecuredKafka, topic: str, mechanism: str, reason: str
) -> None:
    options = kafka.options("SASL_SSL", mechanism) | {"sasl.password": "bob-secret"}
    with (
        pytest.raises(AuthenticationFailed, match=reason),
        Producer(options, max_block_ms=20_000) as producer,
    ):
        producer.send(topic, MESSAGE).result(20)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sessions_go_on_by_re_authentication(kafka: SecuredKafka, topic: str, mechanism: str) -> None:
    """Send and read for longer than three sessions: on the same connections, every record once."""
    options = kafka.options("SASL_PLAINTEXT", mechanism)
    if mechanism == "OAUTHBEARER":
        path = kafka.directory / f"token-{uuid.uuid4()}"
        path.write_text(kafka.tokens.issue("alice"))
        options["sasl.oauthbearer.token.endpoint.url"] = f"file:{path}"
    started, expired = kafka.count_in_log(REAUTHENTICATION), kafka.count_in_log(EXPIRED_SESSION)
    sent = 0
    read: list[int] = []
    deadline = time.monotonic() + 3.5 * SESSION_LIFETIME_MS / 1000
    with Producer(options) as producer, Consumer(options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while time.monotonic() < deadline or len(read) < sent:
            if time.monotonic() < deadline:
                producer.send(topic, str(sent).encode()).result(20)
                sent += 1
            records = consumer.poll(0.2)
            read += [int(record.value or b"") for record in records]
            assert time.monotonic() < deadline + 30
    assert read == list(range(sent))
    assert sent > 20
    # The producer's and the consumer's connection to the only broker: three times each.
    assert kafka.count_in_log(REAUTHENTICATION) - started >= 6
    assert kafka.count_in_log(EXPIRED_SESSION) == expired


def test_certificate_of_the_client_is_its_principal(kafka: SecuredKafka, topic: str) -> None:
    """Kafka takes the name from the certificate: an ACL for it applies, and only to it."""
    options = kafka.options("SSL") | {"bootstrap.servers": kafka.bootstrap("MUTUAL")}
    identity = {
        "ssl.certificate.location": kafka.files["client-certificate"],
        "ssl.key.location": kafka.files["client-key"],
    }
    send(options | identity, topic)
    deny(kafka, "User:alice", topic)
    with pytest.raises(AuthorizationFailed):
        send(options | identity, topic)
    send(kafka.options("SASL_SSL", "PLAIN", "bob"), topic)


def test_key_store_of_the_client_works_as_its_certificate_file(kafka: SecuredKafka, topic: str) -> None:
    options = {
        "bootstrap.servers": kafka.bootstrap("MUTUAL"),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": kafka.files["authority"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": kafka.files["client"],
    }
    send(options, topic)


@pytest.mark.parametrize(
    ("listener", "authority", "reason"),
    [
        ("MUTUAL", "authority", "it does not accept this side's certificate"),
        ("SSL", "foreign", "the certificate of the peer is not accepted"),
    ],
    ids=["no certificate of the client", "unknown authority"],
)
def test_handshake_is_refused(
    kafka: SecuredKafka, topic: str, listener: str, authority: str, reason: str
) -> None:
    options = kafka.options("SSL") | {"bootstrap.servers": kafka.bootstrap(listener)}
    options["ssl.ca.location"] = str(kafka.directory / f"{authority}.pem")
    with pytest.raises(AuthenticationFailed, match=reason):
        send(options, topic)


def send(options: dict[str, Any], topic: str) -> None:
    with Producer(options, max_block_ms=10_000) as producer:
        producer.send(topic, MESSAGE).result(20)


def deny(kafka: SecuredKafka, principal: str, topic: str) -> None:
    """Allow everybody to write to the topic, but not the principal."""
    pattern = ResourcePattern(AclResourceType.TOPIC, topic)
    entries = (
        AccessControlEntry("User:*", AclOperation.WRITE),
        AccessControlEntry(principal, AclOperation.WRITE, AclPermissionType.DENY),
    )
    with Admin(bootstrap_servers=kafka.bootstrap("PLAINTEXT")) as admin:
        admin.create_acls([AclBinding(pattern, entry) for entry in entries])
