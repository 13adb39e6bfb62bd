"""ACLs of new nodes with ``zookeeper.set.acl``, as Kafka sets them.

The session that creates a node has all permissions, everybody else may read it, except for nodes that can
hold secrets. The consumers of the ZooKeeper era write below ``/consumers`` themselves: it stays open.
"""

from __future__ import annotations

from typing import Any, Final

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from odradek.store.layout import znode_paths

_SENSITIVE_ROOTS: Final = (
    znode_paths.CONFIG_USERS,
    znode_paths.CONFIG_BROKERS,
    znode_paths.DELEGATION_TOKENS,
)


def default_acls(path: str, sets_acl: bool) -> list[Any]:
    """Return the ACLs for a new node; ``path`` is relative to the chroot."""
    if not sets_acl or path == znode_paths.CONSUMERS:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(_SENSITIVE_ROOTS):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
