"""Every client over every protocol and mechanism: let in with the right credentials, refused with others."""

from __future__ import annotations

import re
import subprocess
import uuid

import pytest
from tests.security.clients import CLIENTS, MESSAGE, Refused
from tests.support.secured_broker import MECHANISMS, SecuredBroker

CASES = [
    pytest.param(client, protocol, mechanism, id=f"{client}-{protocol}-{mechanism or 'none'}")
    for client in CLIENTS
    for protocol, mechanism in (
        ("SSL", None),
        *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
        *(("SASL_SSL", mechanism) for mechanism in MECHANISMS),
    )
    # kcat has no way to pass a signed token, and an old librdkafka; see below for its SCRAM.
    if client != "kcat" or mechanism in (None, "PLAIN")
]


@pytest.mark.parametrize(("client", "protocol", "mechanism"), CASES)
def test_record_goes_there_and_back(
    secured: SecuredBroker, topic: str, client: str, protocol: str, mechanism: str | None
) -> None:
    token = secured.tokens.issue("alice") if mechanism == "OAUTHBEARER" else None
    assert CLIENTS[client](secured, topic, protocol, mechanism, "alice", token) == MESSAGE


def test_wrong_nonce_of_old_librdkafka_is_refused_as_by_kafka(secured: SecuredBroker, topic: str) -> None:
    """librdkafka before 2.6.1 repeats its part of the nonce, which Kafka 3.9 refuses (CVE-2024-56128)."""
    version = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", version)
    assert number is not None
    arguments = (secured, topic, "SASL_SSL", "SCRAM-SHA-256", "alice", None)
    if tuple(map(int, number.groups())) < (2, 6, 1):
        with pytest.raises(Refused, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
            CLIENTS["kcat"](*arguments)
    else:
        assert CLIENTS["kcat"](*arguments) == MESSAGE


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", ["odradek", "odradek.aio", "confluent-kafka", "kafka-python", "aiokafka"])
def test_wrong_credentials_are_refused(
    secured: SecuredBroker, topic: str, client: str, mechanism: str
) -> None:
    user = f"nobody-{uuid.uuid4()}"
    token = secured.tokens.issue("alice", lifetime_s=-3600) if mechanism == "OAUTHBEARER" else None
    with pytest.raises(Exception) as refusal:  # noqa: PT011 - each client has its own exception
        CLIENTS[client](secured, topic, "SASL_SSL", mechanism, user, token)
    assert not isinstance(refusal.value, AssertionError)
