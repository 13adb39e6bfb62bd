"""ACL bindings: an entry (who may do what, from where) on a pattern of resource names."""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.model.acl_enums import CLUSTER_NAME, AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation

WILDCARD: Final = "*"
"""As a literal name: all resources of a type. As a host: all hosts."""
ANY_USER: Final = "User:*"
"""Principal of entries that apply to every principal."""


class ResourcePattern(NamedTuple):
    """The resources of one type with a name, or with a prefix; the literal name ``*`` means all of them.

    >>> from odradek import AclResourceType, PatternType, ResourcePattern
    >>> ResourcePattern(AclResourceType.TOPIC, "letters-", PatternType.PREFIXED).name
    'letters-'
    """

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    @classmethod
    def cluster(cls) -> ResourcePattern:
        """Return the pattern of the cluster itself."""
        return cls(AclResourceType.CLUSTER, CLUSTER_NAME)

    def __str__(self) -> str:
        kind = self.resource_type.name.lower().replace("_", " ")
        return f"{kind} {self.name}{'*' if self.pattern_type is PatternType.PREFIXED else ''}"


class AccessControlEntry(NamedTuple):
    """Allows or denies an operation to a principal (``User:alice``, or ``User:*`` for all) from a host.

    >>> from odradek import AccessControlEntry, AclOperation
    >>> AccessControlEntry("User:alice", AclOperation.READ).host
    '*'
    """

    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = WILDCARD

    def __str__(self) -> str:
        operation = self.operation.name.lower().replace("_", " ")
        verb = "may" if self.permission_type is AclPermissionType.ALLOW else "must not"
        return f"{self.principal} {verb} {operation} from {self.host}"


class AclBinding(NamedTuple):
    """An entry on a pattern.

    >>> from odradek import AccessControlEntry, AclBinding, AclOperation, AclResourceType, ResourcePattern
    >>> letters = ResourcePattern(AclResourceType.TOPIC, "letters")
    >>> print(AclBinding(letters, AccessControlEntry("User:alice", AclOperation.READ)))
    topic letters: User:alice may read from *
    """

    pattern: ResourcePattern
    entry: AccessControlEntry

    def __str__(self) -> str:
        return f"{self.pattern}: {self.entry}"
