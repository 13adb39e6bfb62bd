"""O9: three brokers with 100 partitions of three replicas: 1,000 clients, and a group of 500 members.

Half of the clients produce a record of 100 bytes per second with acks=all, half fetch once a second. Memory
and CPU are of the mean broker while they do so, memory also before. Then 500 members join a group; half of
them leave, and the others notice with their heartbeats, three seconds apart.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

from bench.cases.operations.cluster_scale import compare_clusters
from bench.fixtures.scaled_cluster import ScaledCluster
from bench.harness import Bench, Goal, Row
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.process_cluster import ProcessCluster

CASE = "O9"
PARTITIONS = 100
CLIENTS = 1_000
MEMBERS = 500
LOAD_SECONDS = 25.0
WARM_UP_SECONDS = 10.0
WINDOW_SECONDS = 10.0
HEARTBEAT_SECONDS = 3.0

FIGURES = (
    (f"{CLIENTS:,} clients: all served", "s", None),
    (f"{CLIENTS:,} clients: produce p50", "ms", None),
    (f"{CLIENTS:,} clients: produce p99", "ms", None),
    (f"{CLIENTS:,} clients: CPU of a broker", "% of a core", None),
    (f"{CLIENTS:,} clients: RSS of a broker", "MB", None),
    (f"{CLIENTS:,} clients: RSS more than before", "MB", None),
    (f"{MEMBERS} members: first assignment", "s", Goal("ours", "≤", 10.0)),
    (f"{MEMBERS} members: half leave", "s", None),
    (f"{MEMBERS} members: RSS of the largest broker", "MB", None),
)


def run(bench: Bench) -> None:
    rows = [Row(CASE, label, unit, goal) for label, unit, goal in FIGURES]
    with bench.brokers(pinned=False, running=False) as sides:
        compare_clusters(bench, sides, rows, _measure)


def _measure(cluster: ProcessCluster) -> list[float]:
    scaled = ScaledCluster(cluster, PARTITIONS)
    scaled.create()
    before = _rss(cluster)
    leaders = scaled.describe(cluster.alive[0]).partitions
    targets = [(topic, number, cluster.ports[state.leader]) for (topic, number), state in leaders.items()]
    result: dict[str, Any] = {}
    spec = {"targets": targets, "clients": CLIENTS, "seconds": LOAD_SECONDS}
    load = threading.Thread(
        target=lambda: result.update(run_load("broker.mixed_clients", spec, pinned=False))
    )
    load.start()
    time.sleep(WARM_UP_SECONDS)
    cpu = [cluster.usage(number).cpu_seconds for number in cluster.alive]
    time.sleep(WINDOW_SECONDS)
    spent = [
        cluster.usage(number).cpu_seconds - seconds
        for number, seconds in zip(cluster.alive, cpu, strict=True)
    ]
    rss = _rss(cluster)
    load.join()
    group = {
        "port": cluster.ports[0],
        "group": "scale",
        "members": MEMBERS,
        "heartbeat_seconds": HEARTBEAT_SECONDS,
    }
    members = run_load("broker.half_leaves", group, pinned=False)
    return [
        result["first_seconds"],
        result["produce_ms_p50"],
        result["produce_ms_p99"],
        statistics.mean(spent) / WINDOW_SECONDS * 100,
        statistics.mean(rss),
        statistics.mean(rss) - statistics.mean(before),
        members["first_seconds"],
        members["rebalance_seconds"],
        max(_rss(cluster)),
    ]


def _rss(cluster: ProcessCluster) -> list[float]:
    return [cluster.usage(number).rss_bytes / MB for number in cluster.alive]
