"""A cluster as its brokers see it: controller, registered brokers, partitions, log ends of replicas.

``observe`` asks through an admin client; everything else is a function of what it returns.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.local_cluster.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from odradek.aio import Admin
    from odradek.client.admin.log_dirs import Replica
    from odradek.client.values import PartitionInfo

OBSERVATION_S: Final = 3.0
"""Time for all requests of one observation; a paused broker does not respond at all."""


class ClusterView(NamedTuple):
    """Cluster metadata of one broker, and log end offsets of the replicas that responded."""

    cluster_id: str | None
    controller: int | None
    registered: frozenset[int]
    partitions: tuple[PartitionInfo, ...]
    internal_topics: frozenset[str]
    log_ends: Mapping[Replica, int]


async def observe(spec: ClusterSpec, brokers: Collection[int]) -> ClusterView | None:
    """Return the cluster as running ``brokers`` see it; None if none of them responds in time."""
    from odradek.aio import Admin
    from odradek.model.client_errors import ClientError

    if not brokers:
        return None
    bootstrap = ",".join(spec.address_of(number) for number in sorted(brokers))
    try:
        async with asyncio.timeout(OBSERVATION_S), Admin(bootstrap_servers=bootstrap) as admin:
            return await _observe(admin, brokers)
    except (ClientError, TimeoutError):
        return None


async def _observe(admin: Admin, brokers: Collection[int]) -> ClusterView:
    cluster = await admin.describe_cluster()
    listed = await admin.list_topics(include_internal=True)
    partitions = await _partitions(admin, listed)
    registered = frozenset(node.id for node in cluster.nodes)
    return ClusterView(
        cluster.cluster_id,
        None if cluster.controller is None else cluster.controller.id,
        registered,
        partitions,
        frozenset(topic.name for topic in listed.values() if topic.is_internal),
        await _log_ends(admin, partitions, registered & frozenset(brokers)),
    )


async def _partitions(admin: Admin, topics: Iterable[str]) -> tuple[PartitionInfo, ...]:
    """Return the partitions of topics, without topics deleted since they were listed."""
    from odradek.model.client_errors import PartialFailure

    try:
        described = await admin.describe_topics(list(topics))
    except PartialFailure as error:
        described = dict(error.results)
    return tuple(partition for topic in described.values() for partition in topic.partitions)


async def _log_ends(
    admin: Admin, partitions: Iterable[PartitionInfo], brokers: Collection[int]
) -> Mapping[Replica, int]:
    """Return the log ends of replicated partitions, as far as these brokers know them."""
    from odradek.client.admin.log_dirs import Replica
    from odradek.model.client_errors import ClientError, PartialFailure

    replicas = [
        Replica(info.topic, info.partition, broker)
        for info in partitions
        if len(info.replicas) > 1
        for broker in info.replicas
        if broker in brokers
    ]
    try:
        return await admin.list_log_end_offsets(replicas, timeout_s=OBSERVATION_S / 3)
    except PartialFailure as error:
        return error.results
    except ClientError:
        return {}


def replica_counts(view: ClusterView) -> dict[int, int]:
    """Return the number of replicas by broker."""
    return dict(Counter(broker for info in view.partitions for broker in info.replicas))


def unready_reason(spec: ClusterSpec, view: ClusterView | None, min_in_sync: int) -> str | None:
    """Return why the cluster does not accept acks=all on every partition yet; None if it does."""
    if view is None:
        return "no broker responds"
    if missing := sorted(set(spec.numbers) - view.registered):
        return f"not registered: broker {', '.join(map(str, missing))}"
    if view.controller is None:
        return "no controller"
    if leaderless := [info for info in view.partitions if info.leader < 0]:
        return f"{len(leaderless)} partitions without a leader, first {_name(leaderless[0])}"
    below = [info for info in view.partitions if len(info.in_sync) < min(min_in_sync, len(info.replicas))]
    if below:
        return f"{len(below)} partitions below min.insync.replicas={min_in_sync}, first {_name(below[0])}"
    return None


def out_of_sync_reason(spec: ClusterSpec, view: ClusterView | None, min_in_sync: int) -> str | None:
    """Return why not all replicas of all partitions are in sync yet; None if they are."""
    if reason := unready_reason(spec, view, min_in_sync):
        return reason
    partitions = () if view is None else view.partitions
    behind = [info for info in partitions if len(info.in_sync) < len(info.replicas)]
    return f"{len(behind)} partitions under-replicated, first {_name(behind[0])}" if behind else None


def follower_lag(view: ClusterView, info: PartitionInfo, broker: int) -> int | None:
    """Return the records that a follower's log is behind its leader's; None if unknown."""
    from odradek.client.admin.log_dirs import Replica

    leader_end = view.log_ends.get(Replica(info.topic, info.partition, info.leader))
    follower_end = view.log_ends.get(Replica(info.topic, info.partition, broker))
    if leader_end is None or follower_end is None:
        return None
    # The offsets are read one after the other.
    return max(0, leader_end - follower_end)


def _name(info: PartitionInfo) -> str:
    return f"{info.topic}-{info.partition}"
