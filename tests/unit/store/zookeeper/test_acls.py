"""ACLs of new nodes."""

from __future__ import annotations

import pytest

from odradek.store.zookeeper.acls import default_acls


def ids(path: str, sets_acl: bool) -> list[tuple[str, int]]:
    return [(acl.id.scheme, acl.perms) for acl in default_acls(path, sets_acl)]


def test_nodes_are_open_without_set_acl() -> None:
    assert ids("/config/users/alice", sets_acl=False) == [("world", 31)]


@pytest.mark.parametrize("path", ["/brokers/ids/1", "/controller", "/config/topics/t"])
def test_creator_owns_a_node_that_everybody_reads(path: str) -> None:
    assert ids(path, sets_acl=True) == [("auth", 31), ("world", 1)]


@pytest.mark.parametrize(
    "path", ["/config/users", "/config/users/alice", "/config/brokers/1", "/delegation_token/tokens"]
)
def test_nodes_with_secrets_are_the_creators_alone(path: str) -> None:
    assert ids(path, sets_acl=True) == [("auth", 31)]


def test_old_consumers_keep_their_access() -> None:
    assert ids("/consumers", sets_acl=True) == [("world", 31)]
