"""Contents of the znodes of ACLs, as Kafka 3.9.1 encodes them (kafka.zk.ResourceZNode, AclChangeStore)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import AccessControlEntry, ResourcePattern
from odradek.store.layout import acl_znodes
from odradek.store.port import BadPayload

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALICE = AccessControlEntry("User:alice", AclOperation.READ)
BOB = AccessControlEntry('User:bob "é/', AclOperation.IDEMPOTENT_WRITE, AclPermissionType.DENY, "10.0.0.1")
TWO = (
    '{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"},'
    '{"principal":"User:bob \\"é/","permissionType":"Deny","host":"10.0.0.1","operation":"IdempotentWrite"}],'
    '"version":1}'
)


def test_entries_are_encoded_as_kafka_does() -> None:
    assert acl_znodes.encode_acls({BOB, ALICE}).decode() == TWO
    assert acl_znodes.decode_acls("/p", TWO.encode()) == {ALICE, BOB}


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (ResourcePattern(AclResourceType.TOPIC, "n:x"), "/kafka-acl/Topic/n:x"),
        (ResourcePattern(AclResourceType.GROUP, "*"), "/kafka-acl/Group/*"),
        (ResourcePattern.cluster(), "/kafka-acl/Cluster/kafka-cluster"),
        (ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "n"), "/kafka-acl/TransactionalId/n"),
        (ResourcePattern(AclResourceType.DELEGATION_TOKEN, "n"), "/kafka-acl/DelegationToken/n"),
        (ResourcePattern(AclResourceType.USER, "User:n"), "/kafka-acl/User/User:n"),
        (ResourcePattern(AclResourceType.TOPIC, "n", PREFIXED), "/kafka-acl-extended/prefixed/Topic/n"),
    ],
)
def test_paths_are_those_of_kafka(pattern: ResourcePattern, path: str) -> None:
    assert acl_znodes.path_of(pattern) == path
    parent = acl_znodes.type_path(pattern.pattern_type, pattern.resource_type)
    assert path == f"{parent}/{pattern.name}"
    assert acl_znodes.parse_resource_type(parent.rpartition("/")[2]) is pattern.resource_type


def test_unknown_resource_type_is_not_parsed() -> None:
    assert [acl_znodes.parse_resource_type(name) for name in ("Unknown", "Any", "topic", "Novel")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    ("pattern", "data"),
    [
        (ResourcePattern(AclResourceType.TOPIC, "n:xé"), "TOPIC:n:xé"),
        (ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "n"), "TRANSACTIONAL_ID:n"),
        (
            ResourcePattern(AclResourceType.TOPIC, "n:xé", PREFIXED),
            '{"version":1,"resourceType":"TOPIC","name":"n:xé","patternType":"PREFIXED"}',
        ),
    ],
)
def test_notifications_are_encoded_as_kafka_does(pattern: ResourcePattern, data: str) -> None:
    assert acl_znodes.encode_change(pattern).decode() == data
    assert acl_znodes.decode_change("/p", data.encode(), pattern.pattern_type) == pattern


@pytest.mark.parametrize("kind", ["Topic", "topic", "TOPIC"])
def test_notifications_of_older_brokers_are_decoded(kind: str) -> None:
    pattern = ResourcePattern(AclResourceType.TOPIC, "x")
    assert acl_znodes.decode_change("/p", f"{kind}:x".encode(), LITERAL) == pattern


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("nonsense", LITERAL),
        ("Novel:x", LITERAL),
        ("ANY:x", LITERAL),
        ("", LITERAL),
        ("TOPIC:x", PREFIXED),
        ('{"version":2,"resourceType":"TOPIC","name":"x","patternType":"PREFIXED"}', PREFIXED),
        ('{"version":1,"resourceType":"TOPIC","name":"x","patternType":"MATCH"}', PREFIXED),
        ('{"version":1,"resourceType":"TOPIC","patternType":"PREFIXED"}', PREFIXED),
    ],
)
def test_invalid_notifications_are_rejected(data: str, kind: PatternType) -> None:
    with pytest.raises(BadPayload, match="/p"):
        acl_znodes.decode_change("/p", data.encode(), kind)


ENTRY = '{"principal":"User:a","permissionType":"%s","operation":"%s","host":"*"}'


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        ("", set()),
        ('{"version":1,"acls":[]}', set()),
        (f'{{"version":1,"acls":[{ENTRY % ("ALLOW", "read")}]}}', {ALICE._replace(principal="User:a")}),
        (
            f'{{"version":1,"acls":[{ENTRY % ("Allow", "Frob")}]}}',
            {AccessControlEntry("User:a", AclOperation.UNKNOWN)},
        ),
        (
            f'{{"version":1,"acls":[{ENTRY % ("Deny", "cluster_action")}]}}',
            {AccessControlEntry("User:a", AclOperation.CLUSTER_ACTION, AclPermissionType.DENY)},
        ),
    ],
)
def test_entries_of_other_versions_are_decoded(data: str, entries: set[AccessControlEntry]) -> None:
    assert acl_znodes.decode_acls("/p", data.encode()) == entries


@pytest.mark.parametrize(
    "data",
    [
        "nonsense",
        "[]",
        '{"acls":[]}',
        '{"version":1}',
        '{"version":2,"acls":[]}',
        '{"version":1,"acls":[{"principal":"a","permissionType":"Allow","operation":"All","host":"*"}]}',
        '{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"All"}]}',
        '{"version":1,"acls":["User:a"]}',
    ],
)
def test_invalid_entries_are_rejected(data: str) -> None:
    with pytest.raises(BadPayload, match="/p"):
        acl_znodes.decode_acls("/p", data.encode())


ENTRIES = st.builds(
    AccessControlEntry,
    st.text(st.characters(codec="utf-8")).map(lambda name: f"User:{name}"),
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermissionType),
    st.text(st.characters(codec="utf-8")),
)


@given(st.frozensets(ENTRIES, max_size=5))
def test_entries_survive_the_store(entries: frozenset[AccessControlEntry]) -> None:
    assert acl_znodes.decode_acls("/p", acl_znodes.encode_acls(entries)) == entries
