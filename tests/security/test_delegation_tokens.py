"""Delegation tokens with a real broker: who has one acts as its owner, until it expires."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.clients import MESSAGE, TIMEOUT_S
from tests.security.conftest import add_scram_users
from tests.support.secured_broker import SecuredBroker
from typer.testing import CliRunner

from odradek import (
    Admin,
    AuthenticationFailed,
    AuthorizationFailed,
    Consumer,
    DelegationToken,
    ErrorCode,
    Producer,
    RequestRefused,
    aio,
    commands,
)

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SECRET = "the cluster's secret"
SETTINGS = {
    "delegation.token.secret.key": SECRET,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # The PLAINTEXT listener is for set-up; tokens of alice may do what alice may.
    "super.users": "User:ANONYMOUS;User:alice",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("tokens"), SETTINGS).start()
    add_scram_users(broker)
    yield broker
    broker.stop()


@pytest.fixture
def topic(broker: SecuredBroker) -> str:
    name = f"topic-{uuid.uuid4()}"
    with Admin(bootstrap_servers=broker.bootstrap("PLAINTEXT")) as admin:
        admin.create_topics([name])
    return name


def admin_of(broker: SecuredBroker, user: str = "alice", protocol: str = "SASL_SSL") -> Admin:
    return Admin(broker.options(protocol, "PLAIN", user))


def create(broker: SecuredBroker, **options: Any) -> DelegationToken:
    with admin_of(broker) as admin:
        return admin.create_delegation_token(**options)


def token_options(
    broker: SecuredBroker,
    token: DelegationToken,
    mechanism: str = SCRAM[0],
    password: str | None = None,
    protocol: str = "SASL_SSL",
) -> dict[str, Any]:
    """Return the options of a client that authenticates by a token."""
    text = token.password.reveal() if password is None else password
    login = f'username="{token.information.token_id}" password="{text}" tokenauth="true"'
    options: dict[str, Any] = {**broker.options(protocol), "sasl.mechanism": mechanism}
    return options | {"sasl.jaas.config": f"{MODULE} required {login};"}


def describe_cluster(options: dict[str, Any]) -> None:
    with Admin(options) as admin:
        admin.describe_cluster(timeout_s=TIMEOUT_S)


def is_refused(options: dict[str, Any]) -> bool:
    try:
        describe_cluster(options)
    except AuthenticationFailed as error:
        return "invalid credentials with SASL mechanism SCRAM-SHA-" in str(error)
    return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", SCRAM)
def test_record_goes_there_and_back(broker: SecuredBroker, topic: str, mechanism: str, protocol: str) -> None:
    options = token_options(broker, create(broker), mechanism, protocol=protocol)
    with Producer(options, max_block_ms=TIMEOUT_S * 1000) as producer:
        producer.send(topic, MESSAGE).result(TIMEOUT_S)
    with Consumer(options, auto_offset_reset="earliest", group_id=f"group-{uuid.uuid4()}") as consumer:
        consumer.subscribe([topic])
        assert bytes(next(iter(consumer)).value or b"") == MESSAGE


def test_asyncio_clients(broker: SecuredBroker) -> None:
    async def scenario() -> None:
        async with aio.Admin(broker.options("SASL_SSL", "PLAIN", "alice")) as admin:
            token = await admin.create_delegation_token(renewers=["User:bob"])
            assert token in await admin.describe_delegation_tokens(["User:alice"])
            assert token not in await admin.describe_delegation_tokens(["User:carol"])
            async with aio.Admin(token_options(broker, token)) as by_token:
                assert len((await by_token.describe_cluster()).nodes) == 1
            expires_ms = await admin.renew_delegation_token(token.hmac, period_ms=5000)
            assert expires_ms < token.information.expiry_timestamp
            assert await admin.expire_delegation_token(token.hmac, period_ms=1000) < expires_ms
            await admin.expire_delegation_token(token.hmac)
            assert token not in await admin.describe_delegation_tokens()

    asyncio.run(scenario())


def test_wrong_hmac_is_refused(broker: SecuredBroker) -> None:
    token, other = create(broker), create(broker)
    assert is_refused(token_options(broker, token, password=other.password.reveal()))
    assert is_refused(token_options(broker, token, password="x"))
    unknown = token.information._replace(token_id="unknown")
    assert is_refused(token_options(broker, token._replace(information=unknown)))
    assert not is_refused(token_options(broker, token))


def test_token_is_no_password_of_a_user_and_the_reverse(broker: SecuredBroker) -> None:
    token = create(broker)
    as_user = {"sasl.mechanism": SCRAM[0], "sasl.username": token.information.token_id}
    assert is_refused({**broker.options("SASL_SSL"), **as_user, "sasl.password": token.password.reveal()})
    as_token = token.information._replace(token_id="alice")
    assert is_refused(token_options(broker, token._replace(information=as_token), password="alice-secret"))


@pytest.mark.parametrize("mechanism", SCRAM)
def test_token_that_was_expired_is_refused_at_once(broker: SecuredBroker, mechanism: str) -> None:
    token = create(broker)
    options = token_options(broker, token, mechanism)
    assert not is_refused(options)
    with admin_of(broker) as admin:
        admin.expire_delegation_token(token.hmac)
    assert is_refused(options)


def test_token_expires_by_time_unless_it_is_renewed(broker: SecuredBroker) -> None:
    token, renewed = create(broker), create(broker)
    with admin_of(broker) as admin:
        for each in (token, renewed):
            admin.expire_delegation_token(each.hmac, period_ms=2000)
        assert not is_refused(token_options(broker, token))
        admin.renew_delegation_token(renewed.hmac)
        until(lambda: is_refused(token_options(broker, token)))
        assert not is_refused(token_options(broker, renewed))
        with pytest.raises(RequestRefused) as expired:
            admin.renew_delegation_token(token.hmac)
        assert expired.value.code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    short = create(broker, max_lifetime_ms=300)
    until(lambda: is_refused(token_options(broker, short)))


def test_connection_ends_with_its_token(broker: SecuredBroker) -> None:
    short, expired = create(broker, max_lifetime_ms=2000), create(broker)
    with Admin(token_options(broker, short)) as admin, Admin(token_options(broker, expired)) as other:
        for each in (admin, other):
            each.describe_cluster(timeout_s=TIMEOUT_S)
        with admin_of(broker) as owner:
            owner.expire_delegation_token(expired.hmac)

        def has_ended() -> bool:
            try:
                admin.describe_cluster(timeout_s=TIMEOUT_S)
            except AuthenticationFailed:
                return True
            return False

        until(has_ended)
        other.describe_cluster(timeout_s=TIMEOUT_S)


def code_of(call: Callable[[], object]) -> ErrorCode | None:
    with pytest.raises(RequestRefused) as refused:
        call()
    return refused.value.code


def test_connection_by_a_token_may_not_handle_tokens(broker: SecuredBroker) -> None:
    token = create(broker)
    plaintext = {"bootstrap.servers": broker.bootstrap("PLAINTEXT")}
    for options in (token_options(broker, token), plaintext, broker.options("SSL")):
        with Admin(options) as admin:
            for call in (
                admin.create_delegation_token,
                admin.describe_delegation_tokens,
                lambda: admin.renew_delegation_token(token.hmac),
                lambda: admin.expire_delegation_token(token.hmac),
            ):
                assert code_of(call) == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert not is_refused(token_options(broker, token))


def test_others_may_not_change_or_see_a_token(broker: SecuredBroker) -> None:
    token, shared = create(broker), create(broker, renewers=["User:bob"])
    with admin_of(broker, "bob") as admin:
        seen = admin.describe_delegation_tokens()
        assert shared in seen
        assert token not in seen
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert code_of(lambda: admin.renew_delegation_token(token.hmac)) == mismatch
        assert code_of(lambda: admin.expire_delegation_token(token.hmac)) == mismatch
        denied = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert code_of(lambda: admin.create_delegation_token(owner="User:alice")) == denied
        admin.renew_delegation_token(shared.hmac)
        missing = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert code_of(lambda: admin.renew_delegation_token(bytes(64))) == missing
    assert not is_refused(token_options(broker, token))


def test_token_of_another_owner_acts_as_that_owner(broker: SecuredBroker, topic: str) -> None:
    token = create(broker, owner="User:bob")
    assert str(token.information.owner) == "User:bob"
    assert str(token.information.requester) == "User:alice"
    with Producer(token_options(broker, token)) as producer, pytest.raises(AuthorizationFailed):
        producer.send(topic, MESSAGE)


def test_principals_are_checked_before_a_request(broker: SecuredBroker) -> None:
    with admin_of(broker) as admin:
        with pytest.raises(ValueError, match="owner must be in the format"):
            admin.create_delegation_token(owner="alice")
        with pytest.raises(ValueError, match="renewer must be in the format"):
            admin.create_delegation_token(renewers=["alice"])


def test_tokens_survive_a_restart_and_no_secret_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_LOG_LEVEL", "debug")
    broker = SecuredBroker(tmp_path, SETTINGS).start()
    try:
        token = create(broker)
        broker.stop()
        broker.start()
        assert not is_refused(token_options(broker, token))
        assert is_refused(token_options(broker, token, password="guess-of-mine"))
    finally:
        broker.stop()
    output = (tmp_path / "broker" / "output.txt").read_text()
    assert f"delegation_token_created token={token.information.token_id} owner=User:alice" in output
    hmac = token.hmac
    for secret in (token.password.reveal(), SECRET, "guess-of-mine", hmac.hex(), repr(hmac)[2:-1]):
        assert secret not in output


def run(broker: SecuredBroker, *arguments: str) -> Any:
    options = broker.options("SASL_SSL", "PLAIN", "alice")
    bootstrap = options.pop("bootstrap.servers")
    extra = [part for name, value in options.items() for part in ("-X", f"{name}={value}")]
    return CliRunner().invoke(commands.app, ["tokens", *arguments, "-b", bootstrap, *extra])


def test_commands(broker: SecuredBroker) -> None:
    created = json.loads(run(broker, "create", "--renewer", "User:bob", "--json").stdout)
    token_id, hmac = created["token"], created["hmac"]
    assert (created["owner"], created["requester"], created["renewers"]) == (
        "User:alice",
        "User:alice",
        ["User:bob"],
    )
    listed = {row["token"]: row for row in json.loads(run(broker, "list", "--json").stdout)}
    assert listed[token_id] == {name: value for name, value in created.items() if name != "hmac"}
    with_hmac = json.loads(run(broker, "list", "--owner", "User:alice", "--hmac", "--json").stdout)
    assert hmac in {row["hmac"] for row in with_hmac}
    assert len(base64.b64decode(hmac)) == 64
    assert hmac not in run(broker, "list").stdout
    renewed = run(broker, "renew", token_id, "--period-ms", "600000")
    assert renewed.stdout.startswith(f"renewed {token_id} 2")
    assert run(broker, "expire", token_id).stdout.startswith(f"expired {token_id} 2")
    missing = run(broker, "expire", token_id)
    assert missing.exit_code == 1
    assert f"there is no token '{token_id}' that you may see" in missing.output
    assert run(broker, "list", "--owner", "alice").exit_code == 2
    fields = dict(line.split(maxsplit=1) for line in run(broker, "create").stdout.splitlines())
    assert fields["owner"] == "User:alice"
    assert len(base64.b64decode(fields["hmac"])) == 64
