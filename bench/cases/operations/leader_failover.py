"""O4: kill -9 of a broker, then of the controller, with 10 to 10,000 partitions of three replicas.

*Unavailable* is the time from the kill until a record with acks=all is appended to a partition that the dead
broker led; ZooKeeper expires its session after six to nine seconds of that. *Failover* is the part after the
expiry, until both other brokers know a live leader of every partition. *Election* and *ISRs* are our
controller's own figures: from the event of the store to the last response to LeaderAndIsr with a new leader,
and to the last one at all, after the dead broker has been removed from all ISRs. The broker is then started
again, until it is in all ISRs. At last the controller is killed: its failover includes the start of the next
one.

`SIZES=10,100` selects the numbers of partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.cases.operations.cluster_scale import compare_clusters, selected_sizes
from bench.fixtures.scaled_cluster import ScaledCluster, event_milliseconds
from bench.harness import Bench, Goal, Row, Sides
from bench.peers.process_cluster import LOOK_SECONDS, OdradekProcesses, ProcessCluster

CASE = "O4"
SIZES = (10, 1_000, 10_000)
UNKNOWN = float("nan")
EVENT_SECONDS_MAX = 60.0


class FailoverFigures(NamedTuple):
    """Figures of one cluster, in seconds."""

    unavailable: float
    failover: float
    election: float
    isrs: float
    restart: float
    controller_failover: float
    controller_start: float


class Figure(NamedTuple):
    label: str
    value: Callable[[FailoverFigures], float]
    goal: Goal | None = None


FIGURES = (
    Figure("unavailable after kill -9", lambda figures: figures.unavailable),
    Figure("failover after the expiry", lambda figures: figures.failover),
    Figure("election", lambda figures: figures.election, Goal("ours", "≤", 1.0)),
    Figure("ISRs", lambda figures: figures.isrs),
    Figure("start after kill -9 until in all ISRs", lambda figures: figures.restart),
    Figure("failover with the controller", lambda figures: figures.controller_failover),
    Figure("start of the next controller", lambda figures: figures.controller_start),
)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=False, running=False) as sides:
        for size in selected_sizes(SIZES):
            _compare(bench, sides, size)


def _compare(bench: Bench, sides: Sides, size: int) -> None:
    rows = [Row(CASE, f"{figure.label}, {size:,}", "s", figure.goal) for figure in FIGURES]
    compare_clusters(
        bench,
        sides,
        rows,
        lambda cluster: [
            figure.value(figures) for figures in [_measure(cluster, size)] for figure in FIGURES
        ],
    )


def _measure(cluster: ProcessCluster, size: int) -> FailoverFigures:
    scaled = ScaledCluster(cluster, size)
    scaled.create()
    killed = next(number for number in cluster.alive if number != scaled.controller())
    unavailable, failover = _kill(cluster, scaled, killed)
    election = _seconds_of(cluster, "broker_failure_handled", "election_ms")
    isrs = _seconds_of(cluster, "broker_failure_handled")
    began = time.monotonic()
    cluster.launch(killed)
    cluster.await_registered([killed])
    scaled.await_in_sync()
    restart = time.monotonic() - began
    _, controller_failover = _kill(cluster, scaled, scaled.controller())
    return FailoverFigures(
        unavailable,
        failover,
        election,
        isrs,
        restart,
        controller_failover,
        _seconds_of(cluster, "controller_started"),
    )


def _kill(cluster: ProcessCluster, scaled: ScaledCluster, number: int) -> tuple[float, float]:
    """Kill a broker; return the seconds of unavailability, and of failover after the expiry."""
    partition = scaled.partition_led_by(number)
    began = time.monotonic()
    cluster.kill(number)
    cluster.await_expired(f"/brokers/ids/{number}")
    expired = time.monotonic()
    scaled.await_produce(partition)
    produced = time.monotonic()
    scaled.await_leaders(cluster.alive)
    return produced - began, time.monotonic() - expired


def _seconds_of(cluster: ProcessCluster, event: str, field: str = "milliseconds") -> float:
    """Return the duration in an event of our brokers, once it is logged; Kafka logs none."""
    deadline = time.monotonic() + (EVENT_SECONDS_MAX if isinstance(cluster, OdradekProcesses) else 0)
    while (milliseconds := event_milliseconds(cluster, event, field)) is None:
        if time.monotonic() >= deadline:
            return UNKNOWN
        time.sleep(LOOK_SECONDS)
    return milliseconds / 1000
