"""G2: cost of a group as its members grow from 10 to 1,000.

Each member has its own connection and one partition assigned; heartbeats are three seconds apart, the
clients' default. Settling is measured from when all join at once, minus the configured initial rebalance
delay; a group that still grows waits for it again, on both sides. The rebalance of the stable group has no
such delay; small groups repeat it, because CPU clocks tick every 10 ms. The last row compares our CPU per
member at the most and the fewest members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample, Sides, load_sample
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "G2"
MEMBERS = (10, 50, 100, 200, 500, 1000)
PAIRS_MAX = 3
INITIAL_DELAY_MS = 3000
SETTINGS = {"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)}
HEARTBEAT_SECONDS = 3.0
WINDOW_SECONDS = 6.0
GOAL_MEMBERS = 500
FLAT = Goal("ratio", "≤", 2.0)

Result = Mapping[str, Any]


class Figure(NamedTuple):
    """A figure of a run: label, unit, part of the result, value, goal."""

    label: str
    unit: str
    part: str
    value: Callable[[Result, int], float]
    goal: Goal | None


FIGURES = (
    Figure(
        "settling beyond the delay",
        "s",
        "settling",
        lambda result, _: result["settle_seconds"] - INITIAL_DELAY_MS / 1000,
        Goal("ours", "≤", 10.0),
    ),
    Figure(
        "CPU of settling, each member",
        "ms",
        "settling",
        lambda result, count: result["settling"]["broker_cpu_seconds"] * 1000 / count,
        None,
    ),
    Figure(
        "heartbeats",
        "% of a core",
        "beating",
        lambda result, _: result["beating"]["broker_cpu_seconds"] / result["beating"]["seconds"] * 100,
        Goal("ours", "≤", 5.0),
    ),
    Figure("one more rebalance", "s", "rebalancing", lambda result, _: result["rebalance_seconds"], None),
    Figure(
        "CPU of a rebalance, each member",
        "ms",
        "rebalancing",
        lambda result, count: result["rebalancing"]["broker_cpu_seconds"] * 1000 / count / result["rounds"],
        None,
    ),
)
REBALANCED = 2000  # minimum number of members over all rounds


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True, settings=SETTINGS) as sides:
        rows = [_compare(bench, sides, count) for count in MEMBERS]
    load = f"{FIGURES[-1].label}, {MEMBERS[-1]:,} members ÷ {MEMBERS[0]}"
    bench.rows.append(growth(load, rows[0][-1], rows[-1][-1], FLAT))


def _compare(bench: Bench, sides: Sides, count: int) -> list[Row]:
    """Measure all figures of groups of one size: a run gives one sample of each."""
    rows = [
        Row(
            CASE,
            f"{figure.label}, {count:,} members",
            figure.unit,
            figure.goal if count == GOAL_MEMBERS else None,
        )
        for figure in FIGURES
    ]
    side_of = {id(broker): side for side, broker in sides.running.items()}

    def measure(broker: Broker) -> Sample:
        first, *others = _samples(bench, broker, count)
        for row, sample in zip(rows[1:], others, strict=True):
            row.samples.setdefault(side_of[id(broker)], []).append(sample)
        return first

    pairs = min(bench.pairs, PAIRS_MAX)
    bench.compare(rows[0], sides.running, measure, missing=sides.missing, pairs=pairs, warm_up=False)
    for row in rows[1:]:
        row.not_run.update(rows[0].not_run)
        bench.rows.append(row)
    return rows


def _samples(bench: Bench, broker: Broker, count: int) -> list[Sample]:
    spec = {
        "port": broker.port,
        "broker_pid": broker.pid,
        "group": bench.fresh_name("members"),
        "members": count,
        "heartbeat_seconds": HEARTBEAT_SECONDS,
        "window_seconds": WINDOW_SECONDS,
        "rounds": -(-REBALANCED // count),
    }
    result = run_load("broker.members", spec)
    return [load_sample(figure.value(result, count), result[figure.part], broker) for figure in FIGURES]
