"""O7: ZooKeeper and three brokers, from nothing to the first record with acks=all, and their memory.

The topic is created by the first Metadata request that brokers accept: three replicas, of which two must be
in sync. Ours is `odradek cluster up`, which starts ZooKeeper from PySpark's jars and then the brokers; Kafka
is started in the same order. Time counts from the first exec. CPU and memory are
read a few seconds after the record; CPU is the figure that a busy machine changes least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.harness import Bench, Row, Sample
from bench.loads.broker.exchange import connect, error_codes, send_request
from bench.loads.broker.frames import batch, metadata, produce
from bench.loads.broker.response_fields import ResponseFields
from bench.meter import MB, Meter, pss_bytes, usage
from bench.peers.broker import Broker, BrokerFailed
from bench.peers.cluster import Cluster, Members, OdradekCluster, cluster_of

CASE = "O7"
TOPIC = "start"
ALL = -1
REPLICAS = 3
PROBE_SECONDS = 0.02
START_SECONDS_MAX = 180.0
SETTLE_SECONDS = 3.0
RETRIABLE_ERRORS = (ConnectionError, TimeoutError)


class ClusterFigures(NamedTuple):
    """Figures of one start, in the units of their rows."""

    seconds: float
    cpu_seconds: float
    brokers_rss_mb: float
    all_rss_mb: float
    all_pss_mb: float
    others_share: float


def run(bench: Bench) -> None:
    rows: list[tuple[Row, Callable[[ClusterFigures], float]]] = [
        (Row(CASE, "start to first acks=all record", "s", None), lambda figures: figures.seconds),
        (
            Row(CASE, "CPU of ZooKeeper and brokers until then", "s", None),
            lambda figures: figures.cpu_seconds,
        ),
        (Row(CASE, "RSS of three brokers", "MB", None), lambda figures: figures.brokers_rss_mb),
        (Row(CASE, "RSS with ZooKeeper", "MB", None), lambda figures: figures.all_rss_mb),
        (Row(CASE, "PSS with ZooKeeper", "MB", None), lambda figures: figures.all_pss_mb),
    ]
    with bench.brokers(pinned=False, running=False) as sides:
        first, pick = rows[0]

        def measure(broker: Broker) -> Sample:
            figures = _measure(cluster_of(broker, bench.fresh_directory("cluster")))
            for row, figure in rows[1:]:
                row.samples.setdefault(side_of[id(broker)], []).append(Sample(figure(figures)))
            return Sample(pick(figures), {"others_share": figures.others_share})

        side_of = {id(broker): side for side, broker in sides.running.items()}
        bench.compare(first, sides.running, measure, missing=sides.missing, warm_up=False)
    for row, _ in rows[1:]:
        row.not_run.update(first.not_run)
        bench.rows.append(row)


def _measure(cluster: Cluster) -> ClusterFigures:
    meter = Meter(None, with_children=True)
    meter.start()
    try:
        cluster.launch()
        _await_first_record(cluster)
        elapsed = meter.stop()
        time.sleep(SETTLE_SECONDS)
        members = cluster.members()
        return _figures(
            elapsed.seconds, elapsed.others_cpu_seconds - _detached_cpu(cluster, members), members
        )
    finally:
        cluster.close()


def _detached_cpu(cluster: Cluster, members: Members) -> float:
    """Return the CPU of members that are no children of this process, a few idle seconds too late."""
    if not isinstance(cluster, OdradekCluster):
        return 0.0
    return sum(usage(pid).cpu_seconds for pid in (members.zookeeper, *members.brokers))


def _figures(seconds: float, others_cpu_seconds: float, members: Members) -> ClusterFigures:
    everything = (members.zookeeper, *members.brokers)
    rss = {pid: usage(pid).rss_bytes / MB for pid in everything}
    return ClusterFigures(
        seconds,
        sum(usage(pid).cpu_seconds for pid in everything),
        sum(rss[pid] for pid in members.brokers),
        sum(rss.values()),
        sum(pss_bytes(pid) / MB for pid in everything),
        max(0.0, others_cpu_seconds) / seconds,
    )


def _await_first_record(cluster: Cluster) -> None:
    exchange = produce(TOPIC, {0: batch([b"first"], [b"first"])}, ALL)
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        cluster.must_live()
        try:
            leader = _leader_port(cluster.ports[0])
            if leader is not None:
                with connect(leader) as connection:
                    if error_codes(exchange, send_request(connection, exchange.frame)) == [0]:
                        return
        except RETRIABLE_ERRORS:
            pass
        time.sleep(PROBE_SECONDS)
    raise BrokerFailed(f"no record was acknowledged in {START_SECONDS_MAX:.0f} s")


def _leader_port(port: int) -> int | None:
    """Return the port of the leader of a partition with all replicas; None if there is none yet."""
    with connect(port) as connection:
        response = ResponseFields(
            send_request(connection, metadata(TOPIC))[12:]
        )  # size, correlation, throttle
    ports = {}
    for _ in range(response.int32()):
        broker, _, ports[broker] = response.int32(), response.string(), response.int32()
        response.string()
    response.string(), response.int32()  # cluster id, controller
    assert response.int32() == 1
    error, _, _, partitions = response.int16(), response.string(), response.int8(), response.int32()
    if error or partitions != 1:
        return None
    error, _, leader, replicas = response.int16(), response.int32(), response.int32(), response.int32()
    return ports.get(leader) if error == 0 and replicas == REPLICAS else None
