"""Comparison: warm up both sides, then A B A B …, then the median of the ratios of the pairs.

Ratios are computed per pair, so that a temporary slowdown of the machine affects both sides of a pair. A side
that cannot run, or fails, leaves the reason in the row; nothing is omitted silently.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from confluent_kafka import KafkaException

from bench.loads.worker import LoadFailed
from bench.meter import GB, MB
from bench.paths import BROKER_CORE
from bench.peers.broker import Broker, BrokerFailed, NotAvailable

Side = TypeVar("Side")

SATURATED_SHARE = 0.9  # of one core: from there on that side is the limit
SETTLED_SHARE = 0.05  # warm-up ends after SETTLED_ROUNDS rounds without an improvement of this share
SETTLED_ROUNDS = 2
SETTLE_ROUNDS_MAX = 10
SETTLE_CPU_SECONDS = 12.0  # of a broker; Kafka needs as much where the load is requests rather than bytes
SUBJECT, PEER = "odradek", "kafka"

FAILURES = (LoadFailed, BrokerFailed, KafkaException, ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one side. `cost` has shares of a core, CPU s per GB, peak RSS."""

    value: float
    cost: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goal:
    """Target for the ratio ours ÷ theirs, or for our own figure."""

    of: Literal["ratio", "ours"]
    sign: Literal["≥", "≤"]
    limit: float

    def __str__(self) -> str:
        return f"{self.of} {self.sign} {self.limit:g}"

    def met(self, ratio: float | None, ours: float | None) -> bool | None:
        """Return whether the target is met; None without a figure."""
        figure = ratio if self.of == "ratio" else ours
        if figure is None:
            return None
        return figure >= self.limit if self.sign == "≥" else figure <= self.limit


@dataclass(slots=True)
class Row:
    """One row of the results: all samples of both sides, in order."""

    case: str
    load: str
    unit: str
    goal: Goal | None
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    peer: str = PEER

    def median(self, side: str) -> float | None:
        samples = self.samples.get(side)
        return statistics.median(sample.value for sample in samples) if samples else None

    def ratios(self) -> list[float]:
        pairs = zip(self.samples.get(SUBJECT, []), self.samples.get(self.peer, []), strict=False)
        return [ours.value / theirs.value for ours, theirs in pairs if theirs.value]

    def ratio(self) -> float | None:
        ratios = self.ratios()
        return statistics.median(ratios) if ratios else None

    def spread(self) -> tuple[float, float] | None:
        """Return the smallest and the largest ratio of a pair."""
        ratios = self.ratios()
        return (min(ratios), max(ratios)) if ratios else None

    def cost(self, side: str, name: str) -> float | None:
        costs = [s.cost[name] for s in self.samples.get(side, []) if name in s.cost]
        return statistics.median(costs) if costs else None

    def limit(self, side: str) -> str:
        """Return which process was saturated."""
        broker, generator = self.cost(side, "broker_share"), self.cost(side, "generator_share")
        if broker is None or generator is None:
            return ""
        full = [
            name for name, share in (("broker", broker), ("generator", generator)) if share >= SATURATED_SHARE
        ]
        return "+".join(full) or "neither"

    def met(self) -> bool | None:
        """Return whether the goal is met; None for a row that failed."""
        if self.goal is None or SUBJECT in self.not_run:
            return None
        ratio = None if self.peer in self.not_run else self.ratio()
        return self.goal.met(ratio, self.median(SUBJECT))


@dataclass(slots=True)
class Sides:
    """The running brokers of a case by side, and the reasons of missing ones."""

    running: dict[str, Broker]
    missing: dict[str, str]


class Bench:
    """One benchmark run: settings, kinds of brokers, rows so far."""

    def __init__(
        self,
        kinds: Mapping[str, type[Broker]],
        *,
        pairs: int,
        full: bool,
        seed: int,
        workspace: Path,
    ) -> None:
        self.pairs = pairs
        self.full = full
        self.seed = seed
        self.rows: list[Row] = []
        self.versions: dict[str, str] = {}
        self.facts: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._kinds: dict[str, type[Broker]] = {}
        self._workspace = workspace
        self._count = 0
        self._prepare(kinds)

    def _prepare(self, kinds: Mapping[str, type[Broker]]) -> None:
        for side, kind in kinds.items():
            try:
                self.versions[side] = f"{kind.name} {kind.prepare()}"
                self.facts |= {f"{name} of {side}": fact for name, fact in kind.facts().items()}
                self._kinds[side] = kind
            except NotAvailable as reason:
                self._missing[side] = str(reason)
                self.log(f"{side}: not run: {reason}")

    def log(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def fresh_name(self, stem: str) -> str:
        """Return an unused topic name."""
        self._count += 1
        return f"{stem}-{self._count}"

    def fresh_directory(self, stem: str) -> Path:
        """Create an empty directory that is removed after the run."""
        folder = self._workspace / self.fresh_name(stem)
        folder.mkdir(parents=True)
        return folder

    @contextmanager
    def brokers(
        self,
        *,
        pinned: bool,
        running: bool = True,
        settings: Mapping[str, str] | None = None,
        only: str | None = None,
    ) -> Iterator[Sides]:
        """Run both brokers, or one, in fresh directories, on the broker core if pinned; stop them after."""
        cores = frozenset({BROKER_CORE}) if pinned else None
        sides = Sides({}, dict(self._missing))
        created: list[Broker] = []
        try:
            for side, kind in self._kinds.items():
                if only not in (None, side):
                    continue
                self._count += 1
                broker = kind(self._workspace / f"{side}-{self._count}", cores=cores, settings=settings)
                created.append(broker)
                try:
                    sides.running[side] = broker.start() if running else broker
                except BrokerFailed as failure:
                    self.log(f"{side} did not start: {failure}")
                    sides.missing[side] = f"did not start: {_brief(failure)}"
            yield sides
        finally:
            for broker in created:
                broker.close()
                broker.wipe()

    def settle(self, sides: Sides, cost: Callable[[Broker], float], cpu_seconds_min: float = 0.0) -> None:
        """Repeat a load on each side until its cost stops falling, because a JVM compiles while it runs.

        `cost` should be CPU per unit of work, which other programs hardly affect. A JVM may have a plateau
        before its last compilation: `cpu_seconds_min` is spent in any case.
        """
        for side, broker in sides.running.items():
            best, rounds, idle_rounds = float("inf"), 0, 0
            began = spent = broker.usage().cpu_seconds
            while rounds < SETTLE_ROUNDS_MAX and (
                idle_rounds < SETTLED_ROUNDS or spent - began < cpu_seconds_min
            ):
                try:
                    now = cost(broker)
                    spent = broker.usage().cpu_seconds
                except FAILURES as failure:
                    self.log(f"warm-up of {side} failed: {failure}")
                    break
                rounds += 1
                idle_rounds = 0 if now < best * (1 - SETTLED_SHARE) else idle_rounds + 1
                best = min(best, now)
            self.log(f"{side} warmed up in {rounds} rounds, cost {best:.3g}")

    def compare(
        self,
        row: Row,
        sides: Mapping[str, Side],
        measure: Callable[[Side], Sample],
        *,
        missing: Mapping[str, str] | None = None,
        pairs: int | None = None,
        warm_up: bool = True,
    ) -> Row:
        """Fill a row: one uncounted round, then counted rounds of all sides in turn."""
        self.rows.append(row)
        row.not_run.update(missing or {})
        rounds = pairs or self.pairs
        for number in range(-1 if warm_up else 0, rounds):
            for side, side_object in sides.items():
                if side in row.not_run:
                    continue
                try:
                    sample = measure(side_object)
                except FAILURES as failure:
                    row.not_run[side] = f"failed: {_brief(failure)}"
                    self.log(f"{row.case} {row.load}: {side} failed: {failure}")
                    continue
                if number >= 0:
                    row.samples.setdefault(side, []).append(sample)
        self.log(f"{row.case} {row.load}: {_summary(row)}")
        return row


def _brief(failure: Exception) -> str:
    """Return the first and the last line of an error, on one line."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return " … ".join(dict.fromkeys([lines[0], lines[-1]]))[:400] if lines else type(failure).__name__


def _summary(row: Row) -> str:
    figures = [f"{side} {row.median(side):.4g} {row.unit}" for side in row.samples]
    ratio, spread = row.ratio(), row.spread()
    if ratio is not None and spread is not None:
        figures.append(f"ratio {ratio:.2f} ({spread[0]:.2f} to {spread[1]:.2f})")
    return ", ".join(figures) or "not run"


def load_sample(value: float, result: Mapping[str, Any], broker: Broker, moved_bytes: float = 0) -> Sample:
    """Return a sample from the result of a generator, with the costs shown in every row."""
    seconds = result["seconds"]
    cost = {
        "seconds": seconds,
        "broker_share": result["broker_cpu_seconds"] / seconds,
        "generator_share": result["generator_cpu_seconds"] / seconds,
        "others_share": result["others_cpu_seconds"] / seconds,
        "rss_peak_mb": broker.usage().rss_peak_bytes / MB,
    }
    if moved_bytes:
        cost["cpu_s_per_gb"] = result["broker_cpu_seconds"] / (moved_bytes / GB)
    return Sample(value, cost)
