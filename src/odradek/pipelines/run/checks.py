"""Whether a pipeline can run: what it needs is looked at, and nothing is changed or started.

Each check says what was found, and where that is wrong, what to do. The decisions are functions of plain
values here; ``check_asking.py`` asks brokers, files and packages for these, ``plan_check.py`` asks Spark.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.model.acl_operations import Operation
from odradek.pipelines.monitoring.metrics import LOOPBACK

if TYPE_CHECKING:
    from odradek.client.admin.topics import TopicDescription
    from odradek.pipelines.spec.reader import Spec

PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
INSTALL: Final = 'pip install "odradek[spark]"'


class Check(NamedTuple):
    """One thing that was looked at. ``fix`` says what to do if it is not ``ok``."""

    what: str
    ok: bool
    found: str
    fix: str | None = None


def failed_count(checks: Collection[Check]) -> int:
    return sum(not one.ok for one in checks)


def package_checks(spec: Spec, is_there: Callable[[str], bool]) -> Iterator[Check]:
    """What pip has to have installed for this pipeline."""
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
    needs: Operation,
    *,
    brokers: str = "",
    is_made: bool = False,
) -> Check:
    """A topic that has to be there, and what this client may do with it as far as the broker tells.

    ``is_made``: brokers make it when somebody writes to it.
    """
    what = f"{role} {topic}"
    if described is None and is_made:
        return Check(what, True, "does not exist yet; the brokers make it when the pipeline writes to it")
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
            f"have the cluster allow {needs.name} on topic {topic}",
        )
    leaderless = [one.partition for one in described.partitions if one.leader < 0]
    if leaderless:
        named = ", ".join(map(str, leaderless))
        return Check(
            what, False, f"no leader for partition {named}", "start the brokers that have its replicas"
        )
    return Check(what, True, f"{count} partition{'' if count == 1 else 's'}")


def group_check(group: str, allowed: Collection[Operation] | None) -> Check:
    """The group whose offsets show the lag."""
    if allowed is not None and Operation.READ not in allowed:
        return Check(
            f"group {group}", False, "READ is not allowed", f"have the cluster allow READ on group {group}"
        )
    return Check(f"group {group}", True, "offsets can be committed")


def directory_check(what: str, place: str) -> Check:
    """A folder of this machine that has to be writable, or that can be made."""
    path = Path(place)
    standing = next(one for one in (path, *path.parents) if one.exists())
    if standing == path and not path.is_dir():
        return Check(what, False, f"{place} is a file", "name a folder")
    if not os.access(standing, os.W_OK | os.X_OK):
        return Check(what, False, f"{standing} cannot be written to", f"allow writing to {standing}")
    return Check(what, True, place if standing == path else f"{place} (will be made)")


def table_check(
    path: str, wanted: Collection[str], partitions: Collection[str], columns: Collection[str]
) -> Check:
    """A Delta table that exists already: partitioned as the file says, with the columns it names."""
    what = "sink table"
    if wanted and list(wanted) != list(partitions):
        return Check(
            what,
            False,
            f"{path} is partitioned by {', '.join(partitions) or 'nothing'}",
            f"partition_by = {list(partitions)}, or another path",
        )
    return Check(what, True, f"{path}, columns {', '.join(columns)}")


def key_check(keys: Collection[str], columns: Collection[str]) -> Check:
    """The keys of an upsert are columns of the table."""
    missing = [one for one in keys if one not in columns]
    if missing:
        return Check(
            "sink keys", False, f"the table has no {', '.join(missing)}", "name columns of the table"
        )
    return Check("sink keys", True, ", ".join(keys))


def port_check(port: int) -> Check:
    """The port of the metrics is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as failed:
            return Check("metrics port", False, f"{port}: {failed.strerror}", "another metrics_port")
    return Check("metrics port", True, str(port))
