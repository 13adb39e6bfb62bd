"""O8: three brokers with 10 to 10,000 partitions of three replicas: creation, description, memory, restart.

All partitions are created by one request. *Leaders known* is when each broker names a leader of each
partition; *in sync* is when all replicas are in all ISRs. Idle CPU and memory are of the mean broker, with no
client, over twenty seconds. A broker other than the controller is then stopped and started again: the restart
takes until it is in all ISRs. Nothing is pinned, and the clusters of both sides never run at the same time.

`SIZES=10,100` selects the numbers of partitions.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.fixtures.scaled_cluster import Creation, Description, ScaledCluster
from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample, Sides
from bench.meter import MB
from bench.peers.broker import Broker
from bench.peers.process_cluster import ProcessCluster, processes_of

CASE = "O8"
SIZES = (10, 100, 1_000, 10_000)
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 20.0


class ScaleFigures(NamedTuple):
    """Figures of one cluster."""

    creation: Creation
    description: Description
    idle_percent: float
    rss_mb: float
    stop_seconds: float
    restart_seconds: float


class Figure(NamedTuple):
    label: str
    unit: str
    value: Callable[[ScaleFigures], float]
    goal: Goal | None = None


FIGURES = (
    Figure("CreateTopics", "s", lambda figures: figures.creation.response_seconds),
    Figure("creation, leaders known", "s", lambda figures: figures.creation.leaders_seconds),
    Figure("creation, all in sync", "s", lambda figures: figures.creation.in_sync_seconds),
    Figure("Metadata, first", "ms", lambda figures: figures.description.first_ms),
    Figure("Metadata, again", "ms", lambda figures: figures.description.later_ms),
    Figure("Metadata, size", "KB", lambda figures: figures.description.response_bytes / 1000),
    Figure("idle CPU of a broker", "% of a core", lambda figures: figures.idle_percent),
    Figure("RSS of a broker", "MB", lambda figures: figures.rss_mb),
    Figure("clean stop", "s", lambda figures: figures.stop_seconds),
    Figure("start until in all ISRs", "s", lambda figures: figures.restart_seconds),
)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=False, running=False) as sides:
        rows = {size: _compare(bench, sides, size) for size in selected_sizes(SIZES)}
    smallest, largest = min(rows), max(rows)
    if smallest != largest:
        for figure, small, large in zip(FIGURES, rows[smallest], rows[largest], strict=True):
            load = f"{figure.label}, {largest:,} partitions ÷ {smallest:,}"
            bench.rows.append(growth(load, small, large, Goal("ratio", "≤", largest / smallest)))


def selected_sizes(sizes: tuple[int, ...]) -> list[int]:
    """Return the numbers of partitions to measure: those of SIZES, or all."""
    chosen = os.environ.get("SIZES", "")
    return [int(part) for part in chosen.split(",") if part] or list(sizes)


def _compare(bench: Bench, sides: Sides, size: int) -> list[Row]:
    rows = [Row(CASE, f"{figure.label}, {size:,}", figure.unit, figure.goal) for figure in FIGURES]
    compare_clusters(
        bench,
        sides,
        rows,
        lambda cluster: [
            figure.value(figures) for figures in [_measure(cluster, size)] for figure in FIGURES
        ],
    )
    return rows


def compare_clusters(
    bench: Bench, sides: Sides, rows: list[Row], measure: Callable[[ProcessCluster], list[float]]
) -> None:
    """Fill the rows of one measurement: one sample of each per round, each from a new cluster."""
    side_of = {id(broker): side for side, broker in sides.running.items()}

    def measure_side(broker: Broker) -> Sample:
        cluster = processes_of(broker, bench.fresh_directory("processes"))
        try:
            cluster.start()
            first, *others = measure(cluster)
        finally:
            cluster.close()
        for row, value in zip(rows[1:], others, strict=True):
            row.samples.setdefault(side_of[id(broker)], []).append(Sample(value))
        return Sample(first)

    bench.compare(rows[0], sides.running, measure_side, missing=sides.missing, warm_up=False)
    for row in rows[1:]:
        row.not_run.update(rows[0].not_run)
        bench.rows.append(row)
        bench.log(f"{row.case} {row.load}: {row.median('odradek')} {row.median('kafka')} {row.unit}")


def _measure(cluster: ProcessCluster, size: int) -> ScaleFigures:
    scaled = ScaledCluster(cluster, size)
    creation = scaled.create()
    description = scaled.measure_description()
    time.sleep(SETTLE_SECONDS)
    before = [cluster.usage(number).cpu_seconds for number in cluster.alive]
    time.sleep(IDLE_SECONDS)
    after = [cluster.usage(number) for number in cluster.alive]
    spent = [usage.cpu_seconds - cpu for usage, cpu in zip(after, before, strict=True)]
    stopped = next(number for number in cluster.alive if number != scaled.controller())
    stop_seconds = cluster.stop(stopped)
    began = time.monotonic()
    cluster.launch(stopped)
    cluster.await_registered([stopped])
    scaled.await_in_sync()
    return ScaleFigures(
        creation,
        description,
        statistics.mean(spent) / IDLE_SECONDS * 100,
        statistics.mean(usage.rss_bytes for usage in after) / MB,
        stop_seconds,
        time.monotonic() - began,
    )
