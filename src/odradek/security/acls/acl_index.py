"""ACL entries by resource pattern, indexed for decisions.

A decision looks at a few patterns only: the literal name, the wildcard, and one prefix for each length that
prefixes of the resource type have. In each pattern it looks up the entries of a principal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import WILDCARD, AccessControlEntry, ResourcePattern

Rule = tuple[AclPermissionType, AclOperation, str]
"""Permission type, operation and host of an entry."""
Rules = Mapping[str, Collection[Rule]]
"""The rules of a pattern by principal."""
NamesKey = tuple[AclPermissionType, AclOperation, str, str, AclResourceType, PatternType]
"""Permission type, operation, host and principal of an entry, and the type of its pattern."""


class AclIndex:
    def __init__(self) -> None:
        self._entries: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        self._rules: dict[tuple[AclResourceType, str, PatternType], Rules] = {}
        self._prefix_lengths: dict[AclResourceType, Counter[int]] = {}
        self._names: dict[NamesKey, set[str]] = {}

    def __iter__(self) -> Iterator[ResourcePattern]:
        return iter(self._entries)

    def entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """Return the entries of exactly this pattern."""
        return self._entries.get(pattern, frozenset())

    def put(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> None:
        """Replace the entries of a pattern; without entries it is removed."""
        before = self._entries.pop(pattern, frozenset())
        for entry in before - entries:
            self._remove_name(pattern, entry)
        for entry in entries - before:
            self._names.setdefault(_names_key(pattern, entry), set()).add(pattern.name)
        if pattern.pattern_type is PatternType.PREFIXED and bool(before) != bool(entries):
            self._count_prefix(pattern, 1 if entries else -1)
        if entries:
            self._entries[pattern] = entries
            self._rules[pattern] = _by_principal(entries)
        else:
            self._rules.pop(pattern, None)

    def matching(self, resource_type: AclResourceType, name: str) -> list[Rules]:
        """Return the rules of all patterns that apply to a resource."""
        rules, size = self._rules, len(name)
        candidates = [rules.get((resource_type, WILDCARD, PatternType.LITERAL))]
        if name != WILDCARD:
            candidates.append(rules.get((resource_type, name, PatternType.LITERAL)))
        candidates += [
            rules.get((resource_type, name[:length], PatternType.PREFIXED))
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= size
        ]
        return [candidate for candidate in candidates if candidate is not None]

    def names(self, key: NamesKey) -> Collection[str]:
        """Return the names of the patterns with such an entry."""
        return self._names.get(key, ())

    def _remove_name(self, pattern: ResourcePattern, entry: AccessControlEntry) -> None:
        key = _names_key(pattern, entry)
        names = self._names[key]
        names.discard(pattern.name)
        if not names:
            del self._names[key]

    def _count_prefix(self, pattern: ResourcePattern, change: int) -> None:
        lengths = self._prefix_lengths.setdefault(pattern.resource_type, Counter())
        lengths[len(pattern.name)] += change
        if not lengths[len(pattern.name)]:
            del lengths[len(pattern.name)]


def _names_key(pattern: ResourcePattern, entry: AccessControlEntry) -> NamesKey:
    return (
        entry.permission_type,
        entry.operation,
        entry.host,
        entry.principal,
        pattern.resource_type,
        pattern.pattern_type,
    )


def _by_principal(entries: Collection[AccessControlEntry]) -> Rules:
    rules: dict[str, set[Rule]] = {}
    for entry in entries:
        rules.setdefault(entry.principal, set()).add((entry.permission_type, entry.operation, entry.host))
    return rules
