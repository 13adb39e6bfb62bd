"""``odradek status``, ``odradek brokers`` and ``odradek controller``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.cli.errors import CommandFailed, command
from odradek.cli.output import as_size, show, show_fields, show_json
from odradek.cli.partition_details import log_dirs_of
from odradek.cli.target import FIRST_RESPONSE_S, Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.admin.cluster import ClusterDescription, VersionRange
    from odradek.client.admin.log_dirs import LogDir
    from odradek.client.blocking.admin import Admin
    from odradek.client.values import Node, PartitionInfo

# Highest versions of Produce and Fetch by release of Apache Kafka, newest first.
_RELEASES: Final = (
    (13, 18, "4.1 or later"),
    (12, 17, "4.0"),
    (11, 17, "3.9"),
    (11, 16, "3.8"),
    (10, 16, "3.7"),
    (9, 15, "3.5 or 3.6"),
    (9, 13, "3.1 to 3.4"),
    (9, 12, "2.8 or 3.0"),
    (8, 12, "2.7"),
    (8, 11, "2.4 to 2.6"),
    (7, 11, "2.3"),
    (7, 10, "2.1 or 2.2"),
    (6, 8, "2.0"),
    (5, 7, "1.1"),
    (5, 6, "1.0"),
    (3, 5, "0.11"),
)
BROKERS: Final = [
    *("broker", "host", "port", "rack", "kafka_version", "controller", "leaders", "replicas", "size"),
    "disk_free",
]


class PartitionCounts(NamedTuple):
    """Numbers of partitions: total, under-replicated, and leaderless."""

    total: int
    under_replicated: int
    leaderless: int


def guess_version(supported: Mapping[str, VersionRange]) -> str:
    """Return the release of Apache Kafka that supports the same versions of Produce and Fetch."""
    highest = [supported[name].highest if name in supported else -1 for name in ("Produce", "Fetch")]
    for produce, fetch, release in _RELEASES:
        if highest[0] >= produce and highest[1] >= fetch:
            return release
    return "before 0.11"


def partition_counts(partitions: Iterable[PartitionInfo]) -> PartitionCounts:
    """Count partitions and those that need attention."""
    listed = list(partitions)
    return PartitionCounts(
        len(listed),
        sum(len(partition.in_sync) < len(partition.replicas) for partition in listed),
        sum(partition.leader < 0 for partition in listed),
    )


@command
def status(json: Json = False, bootstrap: Bootstrap = None, extra: Extra = None) -> None:
    """Show the state of a cluster: controller, brokers, topics, partitions.

    Exits with 1 if no broker responds.

    Example: odradek status && echo ready
    """
    target = Target(bootstrap, extra)
    with target.only_admin() as admin:
        state = _status(admin, target.bootstrap)
    if json:
        show_json(state)
        return
    controller = state["controller"]
    show_fields(
        {
            "bootstrap": state["bootstrap"],
            "cluster": state["cluster_id"],
            "version": f"Kafka {state['kafka_version']}",
            "controller": f"broker {controller}" if controller is not None else "unknown",
            "brokers": state["brokers"],
            "topics": f"{state['topics']}, plus {state['internal_topics']} internal",
            "partitions": state["partitions"],
            "under-replicated": state["under_replicated_partitions"],
            "leaderless": state["leaderless_partitions"],
        }
    )


def _status(admin: Admin, bootstrap: str) -> dict[str, Any]:
    cluster = admin.describe_cluster()
    listed = admin.list_topics(include_internal=True)
    counts = partition_counts(_partitions(admin, listed))
    internal = sum(topic.is_internal for topic in listed.values())
    return {
        "bootstrap": bootstrap,
        "cluster_id": cluster.cluster_id,
        "kafka_version": guess_version(admin.api_versions()),
        "controller": None if cluster.controller is None else cluster.controller.id,
        "brokers": len(cluster.nodes),
        "topics": len(listed) - internal,
        "internal_topics": internal,
        "partitions": counts.total,
        "under_replicated_partitions": counts.under_replicated,
        "leaderless_partitions": counts.leaderless,
    }


def _partitions(admin: Admin, topics: Iterable[str]) -> list[PartitionInfo]:
    """Return the partitions of topics, without topics deleted since they were listed."""
    from odradek import PartialFailure

    try:
        described = admin.describe_topics(list(topics))
    except PartialFailure as error:
        described = dict(error.results)
    return [partition for topic in described.values() for partition in topic.partitions]


@command
def brokers(json: Json = False, bootstrap: Bootstrap = None, extra: Extra = None) -> None:
    """List the brokers of a cluster with their partitions and disk usage.

    The version is the newest release of Apache Kafka whose requests a broker understands.
    """
    with Target(bootstrap, extra).only_admin() as admin:
        cluster = admin.describe_cluster()
        partitions = _partitions(admin, admin.list_topics(include_internal=True))
        directories = log_dirs_of(admin, [node.id for node in cluster.nodes])
        versions = {node.id: _version(admin, node.id) for node in cluster.nodes}
    rows = [
        _broker(node, cluster, partitions, directories.get(node.id)) | {"kafka_version": versions[node.id]}
        for node in cluster.nodes
    ]
    if not json:
        for row in rows:
            row |= {"size": as_size(row["size_bytes"]), "disk_free": as_size(row["disk_free_bytes"])}
    show(rows, BROKERS, as_json=json)


@command
def controller(json: Json = False, bootstrap: Bootstrap = None, extra: Extra = None) -> None:
    """Show the controller of a cluster: the broker that elects partition leaders.

    Exits with 1 if there is none. Brokers do not report the controller epoch to clients.

    Example: odradek controller --json
    """
    with Target(bootstrap, extra).only_admin() as admin:
        node = admin.describe_cluster().controller
    if node is None:
        raise CommandFailed(
            "the cluster has no controller now; brokers elect one within seconds if ZooKeeper responds"
        )
    show([_controller(node)], ["broker", "host", "port", "rack"], as_json=json)


def _controller(node: Node) -> dict[str, Any]:
    return {"broker": node.id, "host": node.host, "port": node.port, "rack": node.rack}


def _version(admin: Admin, broker: int) -> str | None:
    """Return the release that a broker is compatible with; None if it does not respond in time."""
    from odradek import ClientError

    try:
        return guess_version(admin.api_versions(broker=broker, timeout_s=FIRST_RESPONSE_S))
    except ClientError:
        return None


def _broker(
    node: Node,
    cluster: ClusterDescription,
    partitions: list[PartitionInfo],
    directories: Mapping[str, LogDir] | None,
) -> dict[str, Any]:
    known = list((directories or {}).values())
    sizes = [replica.size_bytes for directory in known for replica in directory.replicas.values()]
    free = [directory.usable_bytes for directory in known if directory.usable_bytes >= 0]
    return {
        "broker": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "controller": cluster.controller is not None and cluster.controller.id == node.id,
        "leaders": sum(partition.leader == node.id for partition in partitions),
        "replicas": sum(node.id in partition.replicas for partition in partitions),
        "size_bytes": None if directories is None else sum(sizes),
        "disk_free_bytes": min(free) if free else None,
    }
