"""Blocking and asyncio admin clients, other clients and the command line against a broker with ACLs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.client_apis import Clients
from tests.support.broker import IS_FOREIGN, Broker

from odradek import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    AuthorizationFailed,
    PartialFailure,
    PatternType,
    RequestRefused,
    ResourcePattern,
    ResourcePatternFilter,
)

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="starts brokers with an authorizer")

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
TOPIC = AclResourceType.TOPIC
ME = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker where everybody is a super user."""
    broker = Broker(tmp_path_factory.mktemp("acls"), {**AUTHORIZER, "super.users": ME}).start()
    yield broker
    broker.stop()


@pytest.fixture
def admin(clients: Clients, open_broker: Broker) -> Any:
    admin = clients.admin(bootstrap_servers=open_broker.bootstrap)
    admin.delete_acls([AclBindingFilter()])
    return admin


def binding(name: str, operation: AclOperation = AclOperation.READ, **fields: Any) -> AclBinding:
    kind = fields.pop("kind", PatternType.LITERAL)
    entry = AccessControlEntry(fields.pop("principal", "User:alice"), operation, **fields)
    return AclBinding(ResourcePattern(TOPIC, name, kind), entry)


def test_acls_are_created_described_and_deleted(admin: Any) -> None:
    made = [
        binding("orders"),
        binding("ord", AclOperation.ALL, kind=PatternType.PREFIXED, permission_type=AclPermissionType.DENY),
        binding("*", principal="User:bob", host="10.0.0.1"),
    ]
    admin.create_acls(made)
    admin.create_acls(made[:1])
    assert admin.describe_acls() == sorted(made)
    applicable = ResourcePatternFilter(TOPIC, "orders", PatternType.MATCH)
    of_alice = AclBindingFilter(applicable, AccessControlEntryFilter("User:alice"))
    assert admin.describe_acls(of_alice) == sorted(made[:2])
    nothing = AclBindingFilter(ResourcePatternFilter(TOPIC, "nothing"))
    assert admin.delete_acls([of_alice, nothing]) == {of_alice: sorted(made[:2]), nothing: []}
    assert admin.describe_acls() == made[2:]


def test_invalid_acl_fails_by_itself(admin: Any) -> None:
    invalid, valid = binding("a/b"), binding("orders")
    with pytest.raises(PartialFailure, match="resource name must be non-empty and have no '/'") as raised:
        admin.create_acls([invalid, valid])
    assert raised.value.errors.keys() == {invalid}
    assert raised.value.results == {valid: None}
    assert admin.describe_acls() == [valid]


def test_broker_without_an_authorizer_has_no_acls(clients: Clients, bootstrap: str) -> None:
    admin = clients.admin(bootstrap_servers=bootstrap)
    for call in (
        lambda: admin.create_acls([binding("orders")]),
        admin.describe_acls,
        lambda: admin.delete_acls([AclBindingFilter()]),
    ):
        with pytest.raises((PartialFailure, RequestRefused), match="no authorizer"):
            call()


def odradek(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek", "-b", broker.bootstrap, "acls", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_command_line(admin: Any, open_broker: Broker) -> None:
    added = odradek(
        open_broker, "add", "User:alice", "read", "describe-configs", "--topic", "letters-", "--prefixed"
    )
    assert (added.returncode, added.stderr) == (0, "")
    assert len(admin.describe_acls()) == 2
    odradek(
        open_broker, "add", "User:bob", "all", "--cluster", "--deny", "--host", "10.0.0.1", "--host", "::1"
    )
    listed = json.loads(odradek(open_broker, "list", "--topic", "letters-2024", "--json").stdout)
    assert [(row["name"], row["pattern"], row["principal"], row["operation"]) for row in listed] == [
        ("letters-", "prefixed", "User:alice", "read"),
        ("letters-", "prefixed", "User:alice", "describe-configs"),
    ]
    table = odradek(open_broker, "list", "--principal", "User:bob").stdout.splitlines()
    assert table[0].split() == [
        "RESOURCE",
        "TYPE",
        "NAME",
        "PATTERN",
        "PRINCIPAL",
        "PERMISSION",
        "OPERATION",
        "HOST",
    ]
    assert {line.split()[-1] for line in table[1:]} == {"10.0.0.1", "::1"}
    dry = odradek(open_broker, "remove", "--principal", "User:alice", "--dry-run")
    assert (dry.returncode, len(admin.describe_acls())) == (0, 4)
    odradek(open_broker, "remove", "--principal", "User:alice", "--operation", "read")
    assert len(admin.describe_acls()) == 3
    odradek(open_broker, "remove", "--all")
    assert odradek(open_broker, "list").stderr == "odradek: no ACLs\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "User:a", "frob", "--topic", "t"], "operation must be one of"),
        (["add", "User:a", "read"], "one of --topic, --group"),
        (["add", "User:a", "read", "--topic", "t", "--group", "g"], "at most one of --topic"),
        (["add", "User:a", "read", "--cluster", "--prefixed"], "--prefixed requires"),
        (["remove"], "either --all or options"),
        (["remove", "--all", "--topic", "t"], "either --all or options"),
        (["list", "--operation", "any"], "operation must be one of"),
    ],
)
def test_usage_errors_of_the_command_line(open_broker: Broker, arguments: list[str], message: str) -> None:
    failed = odradek(open_broker, *arguments)
    assert failed.returncode == 2
    assert message in failed.stderr


def send(producer: Any, topic: str) -> None:
    producer.send(topic, b"v", partition=0)
    producer.flush()


def test_clients_see_denials_as_errors(clients: Clients, tmp_path: Any) -> None:
    """Without super users nobody may add the first ACL, so everybody may do anything without one."""
    broker = Broker(tmp_path / "data", {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}).start()
    try:
        admin = clients.admin(bootstrap_servers=broker.bootstrap)
        admin.create_topics(["mine", "theirs"])
        admin.create_acls([binding("theirs", principal="User:bob")])
        producer = clients.producer(bootstrap_servers=broker.bootstrap, enable_idempotence=False)
        send(producer, "mine")
        with pytest.raises(AuthorizationFailed, match="theirs"):
            send(producer, "theirs")
        assert admin.list_topics().keys() == {"mine"}
        with pytest.raises(PartialFailure) as raised:
            admin.delete_topics(["theirs", "mine"])
        assert isinstance(raised.value.errors["theirs"], AuthorizationFailed)
        assert raised.value.errors.keys() == {"theirs"}
    finally:
        broker.stop()
