"""ACLs in a ZooKeeper that Kafka's own AclCommand reads and writes, too."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.apache_kafka import fetched_jars
from tests.support.zookeeper import new_chroot, options_for

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import AccessControlEntry, ResourcePattern
from odradek.store.acls import ensure_acl_paths, read_all_acls, update_acls, watch_acl_changes
from odradek.store.port import Store
from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble
from odradek.system.local_zookeeper import LocalZooKeeper

KAFKA = "3.9.1"
ORDERS = ResourcePattern(AclResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "app-é-", PatternType.PREFIXED)
ALICE = AccessControlEntry("User:alice", AclOperation.READ)
BOB = AccessControlEntry("User:CN=bob,O=x", AclOperation.ALL, AclPermissionType.DENY, "10.0.0.1")

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper"), os.environ, is_durable=False) as server:
        yield server


def kafka_acls(server: LocalZooKeeper, chroot: str, *arguments: str) -> str:
    log4j = Path(__file__).parent / "acls" / "log4j.properties"
    result = subprocess.run(
        [
            *("java", "-cp", f"{fetched_jars(KAFKA)}/*", f"-Dlog4j.configuration=file:{log4j}"),
            *("-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8", "kafka.admin.AclCommand"),
            *("--authorizer-properties", f"zookeeper.connect=127.0.0.1:{server.port}{chroot}"),
            *arguments,
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_kafka_reads_what_odradek_writes_and_the_other_way_round(server: LocalZooKeeper) -> None:
    chroot = new_chroot()

    async def scenario() -> None:
        ensemble = ZooKeeperEnsemble(options_for([server.port], chroot))
        store: Store = await ensemble.connect()
        try:
            await ensure_acl_paths(store)
            await update_acls(store, ORDERS, lambda entries: entries | {ALICE, BOB})
            await update_acls(store, PREFIX, lambda entries: entries | {ALICE})
            listed = await asyncio.to_thread(kafka_acls, server, chroot, "--list")
            assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed
            assert "resourceType=TRANSACTIONAL_ID, name=app-é-, patternType=PREFIXED" in listed
            assert "(principal=User:CN=bob,O=x, host=10.0.0.1, operation=ALL, permissionType=DENY)" in listed
            assert listed.count("principal=User:alice") == 2
            for arguments in (
                (
                    "--add",
                    "--allow-principal",
                    "User:carol",
                    "--operation",
                    "DescribeConfigs",
                    "--topic",
                    "orders",
                ),
                (
                    "--add",
                    "--deny-principal",
                    "User:dave",
                    "--group",
                    "g",
                    "--resource-pattern-type",
                    "prefixed",
                ),
                (
                    "--remove",
                    "--force",
                    "--topic",
                    "orders",
                    "--allow-principal",
                    "User:alice",
                    "--operation",
                    "Read",
                ),
                (
                    "--remove",
                    "--force",
                    "--transactional-id",
                    "app-é-",
                    "--resource-pattern-type",
                    "prefixed",
                ),
            ):
                await asyncio.to_thread(kafka_acls, server, chroot, *arguments)
            acls = {pattern: acl.entries for pattern, acl in (await read_all_acls(store)).items()}
            group = ResourcePattern(AclResourceType.GROUP, "g", PatternType.PREFIXED)
            assert acls == {
                ORDERS: {BOB, AccessControlEntry("User:carol", AclOperation.DESCRIBE_CONFIGS)},
                group: {AccessControlEntry("User:dave", AclOperation.ALL, AclPermissionType.DENY)},
            }
            literal = await watch_acl_changes(store, PatternType.LITERAL)
            prefixed = await watch_acl_changes(store, PatternType.PREFIXED)
            assert {change.pattern for change in literal} == {ORDERS}
            assert {change.pattern for change in prefixed} == {PREFIX, group}
        finally:
            await ensemble.close()

    asyncio.run(scenario())
