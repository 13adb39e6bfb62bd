"""Decisions by ACLs, as Kafka's AclAuthorizer makes them.

A super user may do everything. Otherwise the entries of all patterns that apply to the resource count: one
that denies wins over any number that allow. Some operations imply others, when they are allowed and not when
they are denied. Without entries on the resource, a setting decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Final

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.acl_index import AclIndex, Rules
from odradek.security.acls.bindings import (
    ANY_USER,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    ResourcePattern,
)
from odradek.security.acls.filters import AclBindingFilter
from odradek.security.acls.hosts import host_text
from odradek.security.principal import KafkaPrincipal, parse_principal

DECISIONS_MAX: Final = 16_384
"""Cached decisions, some megabytes. At the bound all are dropped: the active ones are back soon."""
CACHED_NAME_CHARS_MAX: Final = 256
"""Longer names are decided each time: a client chooses the names of groups, and could fill the memory."""

_ALLOW: Final = AclPermissionType.ALLOW
_DENY: Final = AclPermissionType.DENY

_IMPLYING: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
"""Operations that are allowed if one of others is."""

DecisionKey = tuple[KafkaPrincipal, str, AclOperation, AclResourceType, str]


def parse_super_users(text: str) -> frozenset[KafkaPrincipal]:
    """Parse ``super.users``: principals separated by semicolons, because names may contain commas."""
    parts = [part.strip() for part in text.split(";")]
    while parts and not parts[-1]:
        parts.pop()
    return frozenset(map(parse_principal, parts))


class AclAuthorizer:
    """The ACLs of a cluster and the decisions by them. Not aware of the store."""

    def __init__(
        self, super_users: Collection[KafkaPrincipal] = (), *, allow_everyone_if_no_acl: bool = False
    ) -> None:
        self._super_users = frozenset(map(str, super_users))
        self._allow_everyone_if_no_acl = allow_everyone_if_no_acl
        self._index = AclIndex()
        self._decisions: dict[DecisionKey, bool] = {}

    # ACLs.

    def put(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> None:
        """Replace the entries of a pattern."""
        self._index.put(pattern, entries)
        self._decisions.clear()

    def replace(self, acls: Mapping[ResourcePattern, frozenset[AccessControlEntry]]) -> None:
        """Replace all ACLs."""
        index = AclIndex()
        for pattern, entries in acls.items():
            index.put(pattern, entries)
        self._index = index
        self._decisions.clear()

    def patterns(self) -> list[ResourcePattern]:
        return list(self._index)

    def entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """Return the entries of exactly this pattern."""
        return self._index.entries(pattern)

    def bindings(self, selected: AclBindingFilter) -> Iterator[AclBinding]:
        """Yield the bindings that a filter selects."""
        for pattern in selected.pattern.candidates() or self.patterns():
            if selected.pattern.matches(pattern):
                for entry in self._index.entries(pattern):
                    if selected.entry.matches(entry):
                        yield AclBinding(pattern, entry)

    # Decisions.

    def is_allowed(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        """Return whether a principal may, from an address, do this to a resource."""
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        return self._decide(key) if decision is None else decision

    def is_allowed_on_any(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether there may be a resource of this type on which the operation is allowed.

        Implied operations do not count, as in Kafka.
        """
        text = str(principal)
        if text in self._super_users:
            return True
        names = _PatternNames(self._index, text, host_text(host), operation, resource_type)
        denied = names.of(_DENY, PatternType.LITERAL)
        if WILDCARD in denied:
            return False
        if self._allow_everyone_if_no_acl:
            return True
        denied_prefixes = names.of(_DENY, PatternType.PREFIXED)
        if any(not _has_prefix(name, denied_prefixes) for name in names.of(_ALLOW, PatternType.PREFIXED)):
            return True
        return any(
            name == WILDCARD or not (name in denied or _has_prefix(name, denied_prefixes))
            for name in names.of(_ALLOW, PatternType.LITERAL)
        )

    def _decide(self, key: DecisionKey) -> bool:
        principal, host, operation, resource_type, name = key
        text = str(principal)
        decision = text in self._super_users or self._is_allowed_by_acls(
            (text, ANY_USER), host_text(host), operation, self._index.matching(resource_type, name)
        )
        if len(name) <= CACHED_NAME_CHARS_MAX:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def _is_allowed_by_acls(
        self, principals: tuple[str, ...], host: str, operation: AclOperation, matching: list[Rules]
    ) -> bool:
        if not matching:
            return self._allow_everyone_if_no_acl
        if _has_rule(_DENY, (operation,), host, principals, matching):
            return False
        implying = _IMPLYING.get(operation, (operation,))
        return _has_rule(_ALLOW, implying, host, principals, matching)


def _has_rule(
    permission_type: AclPermissionType,
    operations: Iterable[AclOperation],
    host: str,
    principals: tuple[str, ...],
    matching: list[Rules],
) -> bool:
    wanted = [
        (permission_type, operation, each)
        for operation in (*operations, AclOperation.ALL)
        for each in (host, WILDCARD)
    ]
    for rules in matching:
        for principal in principals:
            if (of_principal := rules.get(principal)) and any(rule in of_principal for rule in wanted):
                return True
    return False


class _PatternNames:
    """Names of the patterns that allow or deny an operation to a principal, for any name."""

    __slots__ = ("_index", "_keys", "_resource_type")

    def __init__(
        self,
        index: AclIndex,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
    ) -> None:
        self._index = index
        self._resource_type = resource_type
        self._keys = list(product({operation, AclOperation.ALL}, {host, WILDCARD}, {principal, ANY_USER}))

    def of(self, permission_type: AclPermissionType, pattern_type: PatternType) -> set[str]:
        names: set[str] = set()
        for operation, host, principal in self._keys:
            names.update(
                self._index.names(
                    (permission_type, operation, host, principal, self._resource_type, pattern_type)
                )
            )
        return names


def _has_prefix(name: str, prefixes: Collection[str]) -> bool:
    return bool(prefixes) and any(name[:length] in prefixes for length in range(len(name) + 1))
