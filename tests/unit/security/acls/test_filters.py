"""Filters of ACL bindings."""

import pytest

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.security.acls.filters import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
ANY, MATCH, LITERAL, PREFIXED = PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("kind", "name", "pattern", "is_selected"),
    [
        (ANY, None, ResourcePattern(TOPIC, "x"), True),
        (ANY, "x", ResourcePattern(TOPIC, "x", PREFIXED), True),
        (ANY, "x", ResourcePattern(TOPIC, "*"), False),
        (ANY, "xy", ResourcePattern(TOPIC, "x", PREFIXED), False),
        (ANY, "x", ResourcePattern(GROUP, "x"), False),
        (LITERAL, "x", ResourcePattern(TOPIC, "x"), True),
        (LITERAL, "x", ResourcePattern(TOPIC, "*"), False),
        (LITERAL, "*", ResourcePattern(TOPIC, "*"), True),
        (LITERAL, None, ResourcePattern(TOPIC, "x", PREFIXED), False),
        (PREFIXED, "x", ResourcePattern(TOPIC, "x", PREFIXED), True),
        (PREFIXED, "xy", ResourcePattern(TOPIC, "x", PREFIXED), False),
        (PREFIXED, "x", ResourcePattern(TOPIC, "x"), False),
        (MATCH, "xy", ResourcePattern(TOPIC, "xy"), True),
        (MATCH, "xy", ResourcePattern(TOPIC, "x", PREFIXED), True),
        (MATCH, "xy", ResourcePattern(TOPIC, "*"), True),
        (MATCH, "xy", ResourcePattern(TOPIC, "x"), False),
        (MATCH, "xy", ResourcePattern(TOPIC, "xyz", PREFIXED), False),
        (MATCH, "xy", ResourcePattern(TOPIC, "*", PREFIXED), False),
        (MATCH, None, ResourcePattern(TOPIC, "x", PREFIXED), True),
    ],
)
def test_selected_patterns(
    kind: PatternType, name: str | None, pattern: ResourcePattern, is_selected: bool
) -> None:
    assert ResourcePatternFilter(TOPIC, name, kind).matches(pattern) is is_selected


@pytest.mark.parametrize(
    ("selected", "candidates"),
    [
        (ResourcePatternFilter(TOPIC, "x", LITERAL), [("x", LITERAL)]),
        (ResourcePatternFilter(TOPIC, "x", ANY), [("x", LITERAL), ("x", PREFIXED)]),
        (ResourcePatternFilter(TOPIC, "x", MATCH), []),
        (ResourcePatternFilter(TOPIC, None, LITERAL), []),
        (ResourcePatternFilter(AclResourceType.ANY, "x", LITERAL), []),
    ],
)
def test_patterns_named_by_a_filter(
    selected: ResourcePatternFilter, candidates: list[tuple[str, PatternType]]
) -> None:
    assert [pattern[1:] for pattern in selected.candidates()] == candidates


@pytest.mark.parametrize(
    ("selected", "is_selected"),
    [
        (AccessControlEntryFilter(), True),
        (AccessControlEntryFilter("User:a", AclOperation.READ, AclPermissionType.ALLOW, "h"), True),
        (AccessControlEntryFilter("User:*"), False),
        (AccessControlEntryFilter(operation=AclOperation.ALL), False),
        (AccessControlEntryFilter(permission_type=AclPermissionType.DENY), False),
        (AccessControlEntryFilter(host="*"), False),
    ],
)
def test_selected_entries(selected: AccessControlEntryFilter, is_selected: bool) -> None:
    entry = AccessControlEntry("User:a", AclOperation.READ, AclPermissionType.ALLOW, "h")
    assert selected.matches(entry) is is_selected


def test_exact_filter_selects_one_binding() -> None:
    entry = AccessControlEntry("User:a", AclOperation.READ)
    bindings = [
        AclBinding(pattern, each)
        for pattern in (ResourcePattern(TOPIC, "x"), ResourcePattern(TOPIC, "x", PREFIXED))
        for each in (entry, entry._replace(host="h"))
    ]
    for binding in bindings:
        assert [each for each in bindings if AclBindingFilter.exactly(binding).matches(each)] == [binding]


def test_bindings_are_shown_as_sentences() -> None:
    entry = AccessControlEntry("User:a", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY, "10.0.0.1")
    pattern = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "x-", PREFIXED)
    assert str(AclBinding(pattern, entry)) == (
        "transactional id x-*: User:a must not describe configs from 10.0.0.1"
    )
    assert str(ResourcePattern.cluster()) == "cluster kafka-cluster"
