"""An authorizer that is obviously correct and slow, and random ACL sets to compare with.

It looks at every binding for every decision, and follows Kafka's documentation of ACLs, not the code.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.security.principal import KafkaPrincipal, user

SUPER_USER = user("root")
PRINCIPALS = (user("alice"), user("bob"), user("carol"), KafkaPrincipal("Group", "alice"), SUPER_USER)
HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
NAMES = ("a", "ab", "abc", "abcd", "b", "ba", "*", "*a", "é", "éa")
OPERATIONS = tuple(operation for operation in AclOperation if operation > AclOperation.ALL)
RESOURCE_TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)


class Action(NamedTuple):
    principal: KafkaPrincipal
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str


class SlowAuthorizer:
    def __init__(self, bindings: Sequence[AclBinding], *, allow_everyone_if_no_acl: bool) -> None:
        self.bindings = list(bindings)
        self.allow_everyone_if_no_acl = allow_everyone_if_no_acl

    def is_allowed(self, action: Action) -> bool:
        if action.principal == SUPER_USER:
            return True
        on_resource = [binding.entry for binding in self.bindings if _applies(binding.pattern, action)]
        if not on_resource:
            return self.allow_everyone_if_no_acl
        mine = [entry for entry in on_resource if _concerns(entry, action)]
        denied = [entry for entry in mine if entry.permission_type is AclPermissionType.DENY]
        allowed = [entry for entry in mine if entry.permission_type is AclPermissionType.ALLOW]
        if any(entry.operation in (action.operation, AclOperation.ALL) for entry in denied):
            return False
        return any(_implies(entry.operation, action.operation) for entry in allowed)

    def is_allowed_on_any(self, action: Action) -> bool:
        """Try all names that could make a difference. The name of the action does not matter."""
        names = {binding.pattern.name for binding in self.bindings}
        candidates = {"fresh", *(name for name in names if name != "*"), *(f"{name}~" for name in names)}
        return any(self.is_allowed(action._replace(name=name)) for name in candidates)


def _applies(pattern: ResourcePattern, action: Action) -> bool:
    if pattern.resource_type is not action.resource_type:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return action.name.startswith(pattern.name)
    return pattern.name in ("*", action.name)


def _concerns(entry: AccessControlEntry, action: Action) -> bool:
    return entry.principal in ("User:*", str(action.principal)) and entry.host in ("*", action.host)


def _implies(allowed: AclOperation, wanted: AclOperation) -> bool:
    if allowed in (AclOperation.ALL, wanted):
        return True
    if wanted is AclOperation.DESCRIBE:
        return allowed.name in ("READ", "WRITE", "DELETE", "ALTER")
    return wanted is AclOperation.DESCRIBE_CONFIGS and allowed is AclOperation.ALTER_CONFIGS


def random_bindings(entropy: random.Random, count: int) -> list[AclBinding]:
    """Return bindings of few names, principals and operations, so that they meet often."""
    operations = (*entropy.sample(OPERATIONS, 4), AclOperation.ALL)
    return [
        AclBinding(
            ResourcePattern(
                entropy.choice(RESOURCE_TYPES),
                entropy.choice(NAMES),
                entropy.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            ),
            AccessControlEntry(
                entropy.choice(("User:*", *map(str, PRINCIPALS))),
                entropy.choice(operations),
                entropy.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
                entropy.choice(("*", *HOSTS)),
            ),
        )
        for _ in range(count)
    ]


def random_actions(entropy: random.Random, count: int) -> Iterator[Action]:
    for _ in range(count):
        yield Action(
            entropy.choice(PRINCIPALS),
            entropy.choice(HOSTS),
            entropy.choice(OPERATIONS),
            entropy.choice(RESOURCE_TYPES),
            entropy.choice((*NAMES, "abcde", "c", "z" * 300)),
        )
