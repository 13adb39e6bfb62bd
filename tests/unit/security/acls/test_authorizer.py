"""Decisions by ACLs, case by case and compared with an authorizer that is slow and obviously correct."""

from __future__ import annotations

import os
import random
import timeit
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.security.acls.slow_authorizer import (
    NAMES,
    SUPER_USER,
    Action,
    SlowAuthorizer,
    random_actions,
    random_bindings,
)

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls import authorizer as module
from odradek.security.acls.authorizer import AclAuthorizer, parse_super_users
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.security.acls.filters import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter
from odradek.security.principal import KafkaPrincipal, user

DECISIONS = int(os.environ.get("ODRADEK_TEST_ACL_DECISIONS", "20000"))
"""Compared decisions; 100,000 and more in a long run."""
ACTIONS_PER_SET = 100

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALICE = user("alice")
HOST = "10.0.0.1"


def binding(
    name: str,
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    kind: PatternType = LITERAL,
    resource_type: AclResourceType = TOPIC,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(resource_type, name, kind), AccessControlEntry(principal, operation, permission, host)
    )


def authorizer_of(bindings: Iterable[AclBinding], *, allow_everyone: bool = False) -> AclAuthorizer:
    authorizer = AclAuthorizer([SUPER_USER], allow_everyone_if_no_acl=allow_everyone)
    acls: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
    for pattern, entry in bindings:
        acls[pattern] = acls.get(pattern, frozenset()) | {entry}
    authorizer.replace(acls)
    return authorizer


def may(
    authorizer: AclAuthorizer,
    operation: AclOperation = READ,
    name: str = "orders",
    principal: KafkaPrincipal = ALICE,
    host: str = HOST,
    resource_type: AclResourceType = TOPIC,
) -> bool:
    return authorizer.is_allowed(principal, host, operation, resource_type, name)


@pytest.mark.parametrize(
    ("bindings", "allowed"),
    [
        ([], False),
        ([binding("orders")], True),
        ([binding("*")], True),
        ([binding("ord", kind=PREFIXED)], True),
        ([binding("orders", kind=PREFIXED)], True),
        ([binding("orders", principal="User:*")], True),
        ([binding("orders", host=HOST)], True),
        ([binding("orders", AclOperation.ALL)], True),
        # Others:
        ([binding("order")], False),
        ([binding("ord")], False),
        ([binding("ORDERS")], False),
        ([binding("rd", kind=PREFIXED)], False),
        ([binding("orders2", kind=PREFIXED)], False),
        ([binding("*", kind=PREFIXED)], False),
        ([binding("orders", resource_type=GROUP)], False),
        ([binding("orders", WRITE)], False),
        ([binding("orders", principal="User:Alice")], False),
        ([binding("orders", principal="Group:alice")], False),
        ([binding("orders", principal="Group:*")], False),
        ([binding("orders", host="10.0.0.2")], False),
        ([binding("orders", host="10.0.0.")], False),
        # Denying wins, wherever it is:
        ([binding("orders"), binding("orders", READ, DENY)], False),
        ([binding("orders"), binding("*", READ, DENY)], False),
        ([binding("orders"), binding("o", READ, DENY, kind=PREFIXED)], False),
        ([binding("orders"), binding("orders", AclOperation.ALL, DENY)], False),
        ([binding("orders"), binding("orders", READ, DENY, principal="User:*")], False),
        ([binding("orders"), binding("orders", READ, DENY, host=HOST)], False),
        ([binding("orders", AclOperation.ALL), binding("orders", READ, DENY)], False),
        # but only for whom it concerns:
        ([binding("orders"), binding("orders", WRITE, DENY)], True),
        ([binding("orders"), binding("orders", READ, DENY, principal="User:bob")], True),
        ([binding("orders"), binding("orders", READ, DENY, host="10.0.0.2")], True),
        ([binding("orders"), binding("payments", READ, DENY)], True),
    ],
)
def test_alice_may_read_orders(bindings: list[AclBinding], allowed: bool) -> None:
    assert may(authorizer_of(bindings)) is allowed


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_operations_that_allow_describe(operation: str) -> None:
    assert may(authorizer_of([binding("orders", AclOperation[operation])]), DESCRIBE)
    denied = [binding("orders", DESCRIBE), binding("orders", AclOperation[operation], DENY)]
    assert may(authorizer_of(denied), DESCRIBE), "denying them does not deny it"


@pytest.mark.parametrize("operation", ["CREATE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "CLUSTER_ACTION"])
def test_operations_that_do_not_allow_describe(operation: str) -> None:
    assert not may(authorizer_of([binding("orders", AclOperation[operation])]), DESCRIBE)


def test_alter_configs_allows_describe_configs() -> None:
    authorizer = authorizer_of([binding("orders", AclOperation.ALTER_CONFIGS)])
    assert may(authorizer, AclOperation.DESCRIBE_CONFIGS)
    assert not may(authorizer_of([binding("orders", AclOperation.ALTER)]), AclOperation.DESCRIBE_CONFIGS)
    assert not may(authorizer_of([binding("orders", DESCRIBE)]), READ)


def test_super_user_may_do_what_is_denied() -> None:
    authorizer = authorizer_of([binding("*", AclOperation.ALL, DENY, principal="User:*")])
    assert may(authorizer, principal=SUPER_USER)
    assert not may(authorizer)


def test_everyone_is_allowed_only_where_no_acl_applies() -> None:
    authorizer = authorizer_of([binding("orders", principal="User:bob")], allow_everyone=True)
    assert may(authorizer, name="payments")
    assert not may(authorizer, name="orders")
    assert may(authorizer, name="orders", resource_type=GROUP)
    authorizer.put(ResourcePattern(TOPIC, "pay", PREFIXED), frozenset({binding("").entry}))
    assert not may(authorizer, WRITE, name="payments")


@pytest.mark.parametrize(
    ("acl_host", "client_host", "allowed"),
    [
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("2001:db8:0:0:0:0:0:a", "2001:db8::a", True),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::1", "::1", False),
        ("10.0.0.1", "10.0.0.11", False),
        ("not:an:address", "not:an:address", True),
    ],
)
def test_hosts_are_compared_as_kafka_writes_them(acl_host: str, client_host: str, allowed: bool) -> None:
    assert may(authorizer_of([binding("orders", host=acl_host)]), host=client_host) is allowed


def test_decision_changes_with_the_acls() -> None:
    authorizer = authorizer_of([])
    pattern, entry = binding("orders")
    assert not may(authorizer)
    authorizer.put(pattern, frozenset({entry}))
    assert may(authorizer)
    authorizer.put(pattern, frozenset({entry, binding("orders", READ, DENY).entry}))
    assert not may(authorizer)
    authorizer.put(pattern, frozenset())
    assert not may(authorizer)
    assert authorizer.patterns() == []
    authorizer.replace({pattern: frozenset({entry})})
    assert may(authorizer)


def test_cached_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 10)
    authorizer = authorizer_of([binding("orders")])
    for number in range(100):
        assert not may(authorizer, name=f"topic-{number}")
        assert may(authorizer)
        assert len(authorizer._decisions) <= 10
    for length in (module.CACHED_NAME_CHARS_MAX, module.CACHED_NAME_CHARS_MAX + 1):
        may(authorizer, name="x" * length)
    assert max(len(key[-1]) for key in authorizer._decisions) == module.CACHED_NAME_CHARS_MAX


def test_cached_decision_takes_less_than_two_microseconds() -> None:
    authorizer = authorizer_of([binding(f"topic-{number}") for number in range(1000)])
    read, topic = READ, TOPIC

    def decide() -> None:
        authorizer.is_allowed(ALICE, HOST, read, topic, "topic-500")

    assert min(timeit.repeat(decide, number=1000, repeat=20)) / 1000 < 2e-6


def test_decision_among_many_acls_looks_at_few() -> None:
    bindings = [binding(f"topic-{number}", principal=f"User:u{number}") for number in range(20_000)]
    bindings += [binding(f"{number:x}-" + "y" * (number % 50), kind=PREFIXED) for number in range(20_000)]
    authorizer = authorizer_of(bindings)
    names = iter([f"topic-{number}" for number in range(100_000)])
    once = min(timeit.repeat(lambda: may(authorizer, name=next(names)), number=100, repeat=5)) / 100
    assert once < 1e-3, "it must not scan all"


@pytest.mark.parametrize("seed", range(DECISIONS // ACTIONS_PER_SET))
def test_decisions_equal_those_of_the_slow_authorizer(seed: int) -> None:
    entropy = random.Random(seed)
    bindings = random_bindings(entropy, entropy.choice((0, 1, 3, 10, 40, 120)))
    allow_everyone = entropy.random() < 0.3
    authorizer = authorizer_of(bindings, allow_everyone=allow_everyone)
    slow = SlowAuthorizer(bindings, allow_everyone_if_no_acl=allow_everyone)
    for action in random_actions(entropy, ACTIONS_PER_SET):
        assert authorizer.is_allowed(*action) is slow.is_allowed(action), (action, bindings)
        assert authorizer.is_allowed(*action) is slow.is_allowed(action), "from the cache"


@pytest.mark.parametrize("seed", range(DECISIONS // ACTIONS_PER_SET))
def test_decisions_on_any_resource_equal_those_of_the_slow_authorizer(seed: int) -> None:
    entropy = random.Random(seed)
    bindings = random_bindings(entropy, entropy.choice((0, 1, 3, 10, 40)))
    authorizer = authorizer_of(bindings)
    slow = SlowAuthorizer(bindings, allow_everyone_if_no_acl=False)
    for action in random_actions(entropy, ACTIONS_PER_SET // 10):
        if action.operation in (DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
            continue  # implied operations do not count
        on_any = authorizer.is_allowed_on_any(*action[:4])
        assert on_any is slow.is_allowed_on_any(action), (action, bindings)


def test_any_resource_with_everyone_allowed() -> None:
    authorizer = authorizer_of([binding("orders", READ, DENY)], allow_everyone=True)
    assert authorizer.is_allowed_on_any(ALICE, HOST, READ, TOPIC)
    authorizer.put(*_denying_all())
    assert not authorizer.is_allowed_on_any(ALICE, HOST, READ, TOPIC)
    assert authorizer.is_allowed_on_any(SUPER_USER, HOST, READ, TOPIC)


def _denying_all() -> tuple[ResourcePattern, frozenset[AccessControlEntry]]:
    pattern, entry = binding("*", READ, DENY)
    return pattern, frozenset({entry})


ACTIONS = st.integers(0, 2**32).map(lambda seed: next(random_actions(random.Random(seed), 1)))
BINDINGS = st.integers(0, 2**32).map(lambda seed: random_bindings(random.Random(seed), 1)[0])


@settings(max_examples=200)
@given(st.lists(st.tuples(BINDINGS, st.booleans()), max_size=30), ACTIONS)
def test_decisions_after_changes_are_right(changes: list[tuple[AclBinding, bool]], action: Action) -> None:
    authorizer, bindings = authorizer_of([]), set[AclBinding]()
    for changed, is_added in changes:
        pattern, entry = changed
        entries = authorizer.entries(pattern)
        authorizer.put(pattern, entries | {entry} if is_added else entries - {entry})
        bindings = bindings | {changed} if is_added else bindings - {changed}
        assert set(authorizer.bindings(AclBindingFilter())) == bindings
    slow = SlowAuthorizer(list(bindings), allow_everyone_if_no_acl=False)
    assert authorizer.is_allowed(*action) is slow.is_allowed(action)
    new = authorizer_of(bindings)
    assert authorizer.is_allowed_on_any(*action[:4]) is new.is_allowed_on_any(*action[:4])


@settings(max_examples=200)
@given(
    st.lists(BINDINGS, max_size=20),
    st.sampled_from([None, *NAMES]),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, LITERAL, PREFIXED]),
    st.sampled_from([AclResourceType.ANY, TOPIC, GROUP]),
)
def test_filter_of_the_index_equals_that_of_single_bindings(
    bindings: list[AclBinding], name: str | None, kind: PatternType, resource_type: AclResourceType
) -> None:
    selected = AclBindingFilter(
        ResourcePatternFilter(resource_type, name, kind), AccessControlEntryFilter(permission_type=ALLOW)
    )
    expected = {each for each in bindings if selected.matches(each)}
    assert set(authorizer_of(bindings).bindings(selected)) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("User:admin", ["User:admin"]),
        ("User:CN=a,OU=b; User:c:d ;", ["User:CN=a,OU=b", "User:c:d"]),
    ],
)
def test_super_users_are_separated_by_semicolons(text: str, names: list[str]) -> None:
    assert sorted(map(str, parse_super_users(text))) == names


@pytest.mark.parametrize("text", ["admin", "User:a,b;c", "User:a;;User:b", ":admin"])
def test_invalid_super_users_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be in the format principalType:principalName"):
        parse_super_users(text)
