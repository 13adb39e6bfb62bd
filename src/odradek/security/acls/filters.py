"""Filters of ACL bindings, as in DescribeAcls and DeleteAcls: None and ANY select everything."""

from __future__ import annotations

from typing import NamedTuple

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import WILDCARD, AccessControlEntry, AclBinding, ResourcePattern


class ResourcePatternFilter(NamedTuple):
    """Selects patterns by type and name.

    >>> from odradek import AclResourceType, PatternType, ResourcePattern, ResourcePatternFilter
    >>> applicable = ResourcePatternFilter(AclResourceType.TOPIC, "letters", PatternType.MATCH)
    >>> applicable.matches(ResourcePattern(AclResourceType.TOPIC, "let", PatternType.PREFIXED))
    True
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.pattern_type is PatternType.LITERAL and pattern.name in (self.name, WILDCARD)

    def candidates(self) -> tuple[ResourcePattern, ...]:
        """Return the only patterns that can match; none if the filter does not name them."""
        if self.resource_type in (AclResourceType.ANY, AclResourceType.UNKNOWN) or self.name is None:
            return ()
        if self.pattern_type in (PatternType.MATCH, PatternType.UNKNOWN):
            return ()
        is_any = self.pattern_type is PatternType.ANY
        types = (PatternType.LITERAL, PatternType.PREFIXED) if is_any else (self.pattern_type,)
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in types)


class AccessControlEntryFilter(NamedTuple):
    """Selects entries. Names are compared as text: ``User:*`` selects only entries for ``User:*``.

    >>> from odradek import AccessControlEntry, AccessControlEntryFilter, AclOperation
    >>> of_alice = AccessControlEntryFilter("User:alice")
    >>> of_alice.matches(AccessControlEntry("User:alice", AclOperation.READ))
    True
    """

    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None

    def matches(self, entry: AccessControlEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )


class AclBindingFilter(NamedTuple):
    """Selects bindings; the default selects all.

    >>> from odradek import AccessControlEntryFilter, AclBindingFilter
    >>> AclBindingFilter(entry=AccessControlEntryFilter("User:alice")).pattern.name is None
    True
    """

    pattern: ResourcePatternFilter = ResourcePatternFilter()
    entry: AccessControlEntryFilter = AccessControlEntryFilter()

    @classmethod
    def exactly(cls, binding: AclBinding) -> AclBindingFilter:
        """Return the filter that selects this binding only."""
        pattern, entry = binding
        return cls(ResourcePatternFilter(*pattern), AccessControlEntryFilter(*entry))

    def matches(self, binding: AclBinding) -> bool:
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)
