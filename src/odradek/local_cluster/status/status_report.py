"""The status of a local cluster: processes, brokers, partitions that need attention. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.local_cluster.cluster_spec import HOST, ZOOKEEPER, ClusterSpec, broker_name
from odradek.local_cluster.status.cluster_view import ClusterView, follower_lag
from odradek.ports.processes import ProcessState

if TYPE_CHECKING:
    from odradek.client.values import PartitionInfo

STATE_NAMES = {
    ProcessState.RUNNING: "running",
    ProcessState.PAUSED: "paused",
    ProcessState.GONE: "stopped",
}
UNREGISTERED = "unregistered"
"""A running broker that the cluster does not know: it is starting, or its ZooKeeper session has expired."""


class MemberProcess(NamedTuple):
    """The process of a member; ids and memory only while it exists."""

    state: ProcessState
    process_id: int | None = None
    memory_bytes: int | None = None


class BrokerStatus(NamedTuple):
    """A broker. Counts of partitions are None if no broker responds, the lag if this one does not."""

    broker: int
    address: str
    rack: str | None
    process_id: int | None
    state: str
    is_registered: bool
    is_controller: bool
    leaders: int | None
    replicas: int | None
    in_sync: int | None
    lag_records: int | None
    memory_bytes: int | None


class PartitionStatus(NamedTuple):
    """A partition that lacks replicas or a leader."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    lag_records: int | None
    is_below_min_isr: bool


class ClusterStatus(NamedTuple):
    """A cluster. ``is_observed`` is False if no broker responded; then nothing is known of partitions."""

    directory: str
    bootstrap: str
    cluster_id: str | None
    zookeeper: MemberProcess
    zookeeper_address: str
    brokers: tuple[BrokerStatus, ...]
    is_observed: bool
    controller: int | None
    topics: int
    internal_topics: int
    partitions: int
    problems: tuple[PartitionStatus, ...]

    @property
    def offline_count(self) -> int:
        return sum(problem.leader is None for problem in self.problems)

    @property
    def below_min_isr_count(self) -> int:
        return sum(problem.is_below_min_isr for problem in self.problems)

    @property
    def running(self) -> int:
        """Number of brokers whose process is running."""
        return sum(broker.state in ("running", UNREGISTERED) for broker in self.brokers)


def make_status(
    directory: str,
    spec: ClusterSpec,
    processes: Mapping[str, MemberProcess],
    view: ClusterView | None,
    min_in_sync: int,
) -> ClusterStatus:
    """Return the status of a cluster from its processes and the view of a broker."""
    names = {info.topic for info in view.partitions} if view else set()
    internal = view.internal_topics if view else frozenset()
    return ClusterStatus(
        directory,
        spec.bootstrap,
        view.cluster_id if view else None,
        processes[ZOOKEEPER],
        f"{HOST}:{spec.zookeeper_port}",
        tuple(_broker(spec, number, processes[broker_name(number)], view) for number in spec.numbers),
        view is not None,
        view.controller if view else None,
        len(names - internal),
        len(names & internal),
        len(view.partitions) if view else 0,
        tuple(_problems(view, min_in_sync)) if view else (),
    )


def _broker(spec: ClusterSpec, number: int, process: MemberProcess, view: ClusterView | None) -> BrokerStatus:
    state = STATE_NAMES[process.state]
    if process.state is ProcessState.RUNNING and view is not None and number not in view.registered:
        state = UNREGISTERED
    partitions = [info for info in view.partitions if number in info.replicas] if view else []
    return BrokerStatus(
        number,
        spec.address_of(number),
        spec.rack_of(number),
        process.process_id,
        state,
        view is not None and number in view.registered,
        view is not None and view.controller == number,
        sum(info.leader == number for info in partitions) if view else None,
        len(partitions) if view else None,
        sum(number in info.in_sync for info in partitions) if view else None,
        _total_lag(view, partitions, number) if view and state == "running" else None,
        process.memory_bytes,
    )


def _total_lag(view: ClusterView, partitions: list[PartitionInfo], number: int) -> int | None:
    """Return the lag of a broker over the partitions it follows; None if it did not say."""
    followed = [info for info in partitions if info.leader not in (number, -1)]
    lags = [lag for info in followed if (lag := follower_lag(view, info, number)) is not None]
    return sum(lags) if lags or not followed else None


def _problems(view: ClusterView, min_in_sync: int) -> Iterator[PartitionStatus]:
    for info in sorted(view.partitions):
        if info.leader >= 0 and len(info.in_sync) == len(info.replicas):
            continue
        lags = [follower_lag(view, info, broker) for broker in info.replicas if broker != info.leader]
        known = [lag for lag in lags if lag is not None]
        yield PartitionStatus(
            info.topic,
            info.partition,
            info.leader if info.leader >= 0 else None,
            info.replicas,
            info.in_sync,
            max(known) if known else None,
            len(info.in_sync) < min(min_in_sync, len(info.replicas)),
        )


def as_json(status: ClusterStatus) -> dict[str, Any]:
    """Return the status as JSON values."""
    zookeeper = status.zookeeper
    return {
        "directory": status.directory,
        "bootstrap": status.bootstrap,
        "cluster_id": status.cluster_id,
        "controller": status.controller,
        "zookeeper": {
            "address": status.zookeeper_address,
            "process_id": zookeeper.process_id,
            "state": STATE_NAMES[zookeeper.state],
            "memory_bytes": zookeeper.memory_bytes,
        },
        "brokers": [broker._asdict() for broker in status.brokers],
        "observed": status.is_observed,
        "topics": status.topics,
        "internal_topics": status.internal_topics,
        "partitions": status.partitions,
        "under_replicated_partitions": len(status.problems),
        "offline_partitions": status.offline_count,
        "partitions_below_min_isr": status.below_min_isr_count,
        "problems": [
            {**problem._asdict(), "replicas": list(problem.replicas), "in_sync": list(problem.in_sync)}
            for problem in status.problems
        ],
    }
