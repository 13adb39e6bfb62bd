"""Checks whether a pipeline can run; nothing is changed or started.

Each check has a result, and advice if it failed. The checks here are functions of plain values; ``check.py``
reads these from brokers, files and packages, and ``plan_check.py`` from Spark.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.model.acl_operations import AclOperation
from odradek.pipelines.monitoring.metrics import LOOPBACK

if TYPE_CHECKING:
    from odradek.client.admin.topics import TopicDescription
    from odradek.pipelines.spec.reader import Spec

PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
INSTALL: Final = 'pip install "odradek[spark]"'


class Check(NamedTuple):
    """One check. ``fix`` is the advice if it is not ``ok``."""

    what: str
    ok: bool
    found: str
    fix: str | None = None


def failed_count(checks: Collection[Check]) -> int:
    return sum(not check.ok for check in checks)


def package_checks(spec: Spec, is_there: Callable[[str], bool]) -> Iterator[Check]:
    """Check the Python packages that this pipeline needs."""
    lake = "deltalake" in _needed(spec)
    for package in (*PACKAGES, *(("deltalake",) if lake else ())):
        if is_there(package):
            yield Check(f"package {package}", True, "installed")
        else:
            yield Check(f"package {package}", False, "not installed", INSTALL)


def _needed(spec: Spec) -> set[str]:
    tables = (spec.sink.type, spec.source.format if spec.source.type == "table" else "")
    return {"deltalake"} if "delta" in tables else set()


def topic_check(
    role: str,
    topic: str,
    described: TopicDescription | None,
    needs: AclOperation,
    *,
    brokers: str = "",
    is_made: bool = False,
) -> Check:
    """Check that a topic exists, has leaders, and allows the operation.

    ``is_made``: brokers create it automatically.
    """
    what = f"{role} {topic}"
    if described is None and is_made:
        return Check(what, True, "does not exist yet; the brokers create it when the pipeline writes to it")
    if described is None:
        fix = f"odradek topics create {topic} -b {brokers}, or correct the name"
        return Check(what, False, "does not exist", fix)
    allowed = described.authorized_operations
    count = len(described.partitions)
    if allowed is not None and needs not in allowed:
        return Check(
            what,
            False,
            f"{needs.name} is not allowed",
            f"allow {needs.name} on topic {topic}",
        )
    leaderless = [partition.partition for partition in described.partitions if partition.leader < 0]
    if leaderless:
        numbers = ", ".join(map(str, leaderless))
        return Check(
            what, False, f"no leader for partition {numbers}", "start the brokers that have its replicas"
        )
    return Check(what, True, f"{count} partition{'' if count == 1 else 's'}")


def group_check(group: str, allowed: Collection[AclOperation] | None) -> Check:
    """Check the group whose offsets show the lag."""
    if allowed is not None and AclOperation.READ not in allowed:
        return Check(f"group {group}", False, "READ is not allowed", f"allow READ on group {group}")
    return Check(f"group {group}", True, "offsets can be committed")


def directory_check(what: str, location: str) -> Check:
    """Check that a local directory is writable, or can be created."""
    path = Path(location)
    existing = next(directory for directory in (path, *path.parents) if directory.exists())
    if existing == path and not path.is_dir():
        return Check(what, False, f"{location} is a file", "set a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(what, False, f"{existing} is not writable", f"allow writing to {existing}")
    return Check(what, True, location if existing == path else f"{location} (will be created)")


def table_check(
    path: str, partition_by: Collection[str], partitions: Collection[str], columns: Collection[str]
) -> Check:
    """Check the partitioning of an existing Delta table."""
    what = "sink table"
    if partition_by and list(partition_by) != list(partitions):
        return Check(
            what,
            False,
            f"{path} is partitioned by {', '.join(partitions) or 'nothing'}",
            f"partition_by = {list(partitions)}, or another path",
        )
    return Check(what, True, f"{path}, columns {', '.join(columns)}")


def key_check(keys: Collection[str], columns: Collection[str]) -> Check:
    """Check that the keys of an upsert are columns of the table."""
    missing = [key for key in keys if key not in columns]
    if missing:
        return Check("sink keys", False, f"the table has no {', '.join(missing)}", "use columns of the table")
    return Check("sink keys", True, ", ".join(keys))


def port_check(port: int) -> Check:
    """Check that the metrics port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as failed:
            return Check("metrics port", False, f"{port}: {failed.strerror}", "set another metrics_port")
    return Check("metrics port", True, str(port))
