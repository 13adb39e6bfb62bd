"""How a comparison is made: warm up both sides, then A B A B …, then the median of the pairs' ratios.

A ratio is taken inside each pair, so that what slows the machine down for a while slows both sides of
that pair. A side that cannot run, or fails, leaves its reason in the row; nothing is left out in silence.
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
from bench.peers.broker import Broker, BrokerFailed, NotAvailable
from bench.places import BROKER_CORE

Contestant = TypeVar("Contestant")

SATURATED_SHARE = 0.9  # of one core: at or above it, that side is the limit
SETTLED_SHARE = 0.05  # a warm-up ends when so many rounds in a row were not this much cheaper than the best
SETTLED_ROUNDS = 2
SETTLE_ROUNDS_MAX = 10
SETTLE_CPU_SECONDS = 12.0  # of a broker; where requests rather than bytes are the load, Kafka needs as much
SUBJECT, PEER = "odradek", "kafka"

FAILURES = (LoadFailed, BrokerFailed, KafkaException, ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one side. `cost` holds what it took: shares of a core, CPU s per GB, peak RSS."""

    value: float
    cost: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goal:
    """What was promised: of the ratio ours ÷ theirs, or of our own figure."""

    of: Literal["ratio", "ours"]
    sign: Literal["≥", "≤"]
    limit: float

    def __str__(self) -> str:
        return f"{self.of} {self.sign} {self.limit:g}"

    def met(self, ratio: float | None, ours: float | None) -> bool | None:
        """None when there is nothing to judge."""
        figure = ratio if self.of == "ratio" else ours
        if figure is None:
            return None
        return figure >= self.limit if self.sign == "≥" else figure <= self.limit


@dataclass(slots=True)
class Row:
    """One line of the results: every sample of both sides, in the order taken."""

    case: str
    load: str
    unit: str
    goal: Goal | None
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    peer: str = PEER

    def median(self, side: str) -> float | None:
        taken = self.samples.get(side)
        return statistics.median(sample.value for sample in taken) if taken else None

    def ratios(self) -> list[float]:
        pairs = zip(self.samples.get(SUBJECT, []), self.samples.get(self.peer, []), strict=False)
        return [ours.value / theirs.value for ours, theirs in pairs if theirs.value]

    def ratio(self) -> float | None:
        ratios = self.ratios()
        return statistics.median(ratios) if ratios else None

    def spread(self) -> tuple[float, float] | None:
        """The smallest and the largest ratio of a pair."""
        ratios = self.ratios()
        return (min(ratios), max(ratios)) if ratios else None

    def cost(self, side: str, name: str) -> float | None:
        found = [s.cost[name] for s in self.samples.get(side, []) if name in s.cost]
        return statistics.median(found) if found else None

    def limit(self, side: str) -> str:
        """Which side of the wire had no more to give."""
        broker, generator = self.cost(side, "broker_share"), self.cost(side, "generator_share")
        if broker is None or generator is None:
            return ""
        full = [
            name for name, share in (("broker", broker), ("generator", generator)) if share >= SATURATED_SHARE
        ]
        return "+".join(full) or "neither"

    def met(self) -> bool | None:
        """A row that broke off proves nothing, whatever it had until then."""
        if self.goal is None or SUBJECT in self.not_run:
            return None
        ratio = None if self.peer in self.not_run else self.ratio()
        return self.goal.met(ratio, self.median(SUBJECT))


@dataclass(slots=True)
class Sides:
    """The two contestants of a case by name, and why one of them is missing."""

    running: dict[str, Broker]
    missing: dict[str, str]


class Bench:
    """One run: its settings, the kinds of brokers it can have, the rows it has so far."""

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
        self._missing: dict[str, str] = {}
        self._kinds: dict[str, type[Broker]] = {}
        self._workspace = workspace
        self._count = 0
        self._prepare(kinds)

    def _prepare(self, kinds: Mapping[str, type[Broker]]) -> None:
        for side, kind in kinds.items():
            try:
                self.versions[side] = f"{kind.name} {kind.prepare()}"
                self._kinds[side] = kind
            except NotAvailable as reason:
                self._missing[side] = str(reason)
                self.say(f"{side}: not run: {reason}")

    def say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    def fresh_name(self, stem: str) -> str:
        """A topic name no measurement of this run has used."""
        self._count += 1
        return f"{stem}-{self._count}"

    def fresh_folder(self, stem: str) -> Path:
        """An empty folder that goes with the run."""
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
        """Both brokers, or one, in fresh directories, on the broker core if pinned; stopped on leaving."""
        cores = frozenset({BROKER_CORE}) if pinned else None
        sides = Sides({}, dict(self._missing))
        made: list[Broker] = []
        try:
            for side, kind in self._kinds.items():
                if only not in (None, side):
                    continue
                self._count += 1
                broker = kind(self._workspace / f"{side}-{self._count}", cores=cores, settings=settings)
                made.append(broker)
                try:
                    sides.running[side] = broker.start() if running else broker
                except BrokerFailed as failure:
                    self.say(f"{side} did not start: {failure}")
                    sides.missing[side] = f"did not start: {_brief(failure)}"
            yield sides
        finally:
            for broker in made:
                broker.close()
                broker.wipe()

    def settle(self, sides: Sides, cost: Callable[[Broker], float], cpu_seconds_min: float = 0.0) -> None:
        """Repeat a load on each side until it gets no cheaper: a JVM compiles while it works.

        `cost` should be CPU per unit of work, which other programs on the machine hardly disturb. A JVM
        may rest on a plateau before its last compilation: `cpu_seconds_min` is spent in any case.
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
                    self.say(f"warming {side} up failed: {failure}")
                    break
                rounds += 1
                idle_rounds = 0 if now < best * (1 - SETTLED_SHARE) else idle_rounds + 1
                best = min(best, now)
            self.say(f"{side} warmed up in {rounds} rounds, cost {best:.3g}")

    def compare(
        self,
        row: Row,
        contestants: Mapping[str, Contestant],
        measure: Callable[[Contestant], Sample],
        *,
        missing: Mapping[str, str] | None = None,
        pairs: int | None = None,
        warm_up: bool = True,
    ) -> Row:
        """Fill a row and keep it: one uncounted round, then rounds of every contestant in turn."""
        self.rows.append(row)
        row.not_run.update(missing or {})
        rounds = pairs or self.pairs
        for number in range(-1 if warm_up else 0, rounds):
            for side, contestant in contestants.items():
                if side in row.not_run:
                    continue
                try:
                    sample = measure(contestant)
                except FAILURES as failure:
                    row.not_run[side] = f"failed: {_brief(failure)}"
                    self.say(f"{row.case} {row.load}: {side} failed: {failure}")
                    continue
                if number >= 0:
                    row.samples.setdefault(side, []).append(sample)
        self.say(f"{row.case} {row.load}: {_glance(row)}")
        return row


def _brief(failure: Exception) -> str:
    """What failed and the last thing said about it, on one line."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return " … ".join(dict.fromkeys([lines[0], lines[-1]]))[:400] if lines else type(failure).__name__


def _glance(row: Row) -> str:
    figures = [f"{side} {row.median(side):.4g} {row.unit}" for side in row.samples]
    ratio, spread = row.ratio(), row.spread()
    if ratio is not None and spread is not None:
        figures.append(f"ratio {ratio:.2f} ({spread[0]:.2f} to {spread[1]:.2f})")
    return ", ".join(figures) or "not run"


def load_sample(value: float, result: Mapping[str, Any], broker: Broker, moved_bytes: float = 0) -> Sample:
    """A sample from what a generator reported, with the costs every row shows."""
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
