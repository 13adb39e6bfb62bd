"""Every client over every protocol and mechanism: let in with the right credentials, refused with others."""

from __future__ import annotations

import shutil
import uuid

import pytest
from tests.security.clients import CLIENTS, MESSAGE
from tests.support.secured_broker import MECHANISMS, SecuredBroker

CASES = [
    pytest.param(client, protocol, mechanism, id=f"{client}-{protocol}-{mechanism or 'none'}")
    for client in CLIENTS
    for protocol, mechanism in (
        ("SSL", None),
        *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
        *(("SASL_SSL", mechanism) for mechanism in MECHANISMS),
    )
    if (client, mechanism) != ("kcat", "OAUTHBEARER")  # it has no way to pass a signed token
]


@pytest.fixture(autouse=True)
def _kcat_is_installed(request: pytest.FixtureRequest) -> None:
    client = request.node.callspec.params.get("client")
    if client == "kcat" and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")


@pytest.mark.parametrize(("client", "protocol", "mechanism"), CASES)
def test_record_goes_there_and_back(
    secured: SecuredBroker, topic: str, client: str, protocol: str, mechanism: str | None
) -> None:
    token = secured.tokens.issue("alice") if mechanism == "OAUTHBEARER" else None
    assert CLIENTS[client](secured, topic, protocol, mechanism, "alice", token) == MESSAGE


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
