"""Rounds of faults: so many of each number, a few in each scene, all checks after each scene.

The rounds of a number are spread evenly over its faults. Each fault is played at least once, those that take
long (``Entry.is_long``) only once.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from tests.cluster_faults.harness.catalogue import Entry, MakeCluster
from tests.cluster_faults.harness.fault_cluster import BROKERS, TOPICS, FaultCluster
from tests.cluster_faults.harness.figures import percentile
from tests.cluster_faults.harness.scene import Scene

ROUNDS_PER_SCENE = 8
SCENES_PER_CLUSTER = 12
"""Events of brokers are read as a whole after each scene: a cluster must not become too old."""


@dataclass
class Row:
    """Figures of one number."""

    rounds: int = 0
    unchecked: int = 0
    """Rounds of scenes that ended with an error, before all checks."""
    scenes: int = 0
    acknowledged: int = 0
    fault_seconds: float = 0.0
    seconds: float = 0.0
    """With load, restoration and checks."""
    unavailable: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Sums over all scenes."""

    def text(self, number: str) -> str:
        times = "      -       -"
        if self.unavailable:
            p50, p99 = (percentile(self.unavailable, percent) for percent in (50, 99))
            times = f"{p50:7.2f} {p99:7.2f}"
        return (
            f"{number:4} {self.rounds:7} {self.unchecked:9} {self.acknowledged:12} "
            f"{self.fault_seconds:14.0f} {self.seconds:7.0f} {len(self.violations):10} {times}"
        )


HEADINGS = (
    "      rounds unchecked acknowledged  fault seconds seconds violations  p50 s   p99 s "
    "(without acknowledgements)"
)


def spread(entries: Sequence[Entry], count: int, rng: random.Random) -> list[Entry]:
    """Return so many rounds of one number in a random order, or more if each fault needs one."""
    short = [entry for entry in entries if not entry.is_long]
    rounds = list(entries)
    while short and len(rounds) < count:
        rounds += rng.sample(short, min(len(short), count - len(rounds)))
    rng.shuffle(rounds)
    return rounds


class Rounds:
    """``rows`` has what was measured so far, by number."""

    def __init__(self, home: Path, seed: int, show: Callable[[str], None]) -> None:
        self._home = home
        self._seed = seed
        self._show = show
        self._cluster: FaultCluster | None = None
        self._maker: MakeCluster | None = None
        self._scenes_left = 0
        self._clusters = 0
        self.rows: dict[str, Row] = {}

    def play(self, entries: Sequence[Entry], count: int) -> None:
        """Play so many rounds of each number, in an order that the seed decides."""
        for number in dict.fromkeys(entry.number for entry in entries):
            rng = random.Random(f"{self._seed} {number}")
            rounds = spread([entry for entry in entries if entry.number == number], count, rng)
            try:
                for make_cluster in dict.fromkeys(entry.cluster for entry in rounds):
                    chosen = [entry for entry in rounds if entry.cluster == make_cluster]
                    for begin in range(0, len(chosen), ROUNDS_PER_SCENE):
                        self._play_scene(number, chosen[begin : begin + ROUNDS_PER_SCENE], make_cluster)
            finally:
                self._drop_cluster()
                self._show(f"{HEADINGS}\n{self.rows[number].text(number)}")

    def _play_scene(self, number: str, entries: Sequence[Entry], make_cluster: MakeCluster) -> None:
        row = self.rows.setdefault(number, Row())
        name = f"{number.lower()}-{row.scenes}"
        seed = random.Random(f"{self._seed} {name}").randrange(1 << 30)
        began = time.monotonic()
        violations: list[str] = []
        scene: Scene | None = None
        played: list[float] = []
        try:
            scene = Scene(self._open_cluster(make_cluster), name, seed)
            self._play_entries(scene, entries, played)
            row.rounds += len(played)
            row.fault_seconds += sum(played)
            row.acknowledged += scene.report.acknowledged
            row.unavailable += scene.unavailable_seconds()
            if not scene.report.violations:
                self._delete_topics(scene)
        except Exception as error:  # noqa: BLE001 - the next rounds are played on another cluster
            row.unchecked += len(played)
            violations.append(f"{type(error).__name__}: {error}")
            self._show(traceback.format_exc())
        if scene is not None:
            violations += scene.report.violations
            row.outcomes.update(scene.report.outcomes)
        seconds = time.monotonic() - began
        row.seconds += seconds
        row.scenes += 1
        row.violations += violations
        self._describe_scene(name, entries, played, seconds, violations)
        if violations:
            self._drop_cluster()

    @staticmethod
    def _play_entries(scene: Scene, entries: Sequence[Entry], played: list[float]) -> None:
        """Play a scene and check it; note the seconds of each fault that has ended."""
        with scene:
            for at, entry in enumerate(entries):
                began = time.monotonic()
                try:
                    entry.play(scene)
                except Exception as error:
                    error.add_note(f"round {at} of scene {scene.topic}: {entry.name}")
                    raise
                played.append(time.monotonic() - began)
                scene.cluster.restore()

    def _describe_scene(
        self,
        name: str,
        entries: Sequence[Entry],
        played: Sequence[float],
        seconds: float,
        violations: list[str],
    ) -> None:
        names = [f"{entry.name} {taken:.1f} s" for entry, taken in zip(entries, played, strict=False)]
        names += [entry.name for entry in entries[len(played) :]]
        self._show(f"{name}: {', '.join(names)}: {seconds:.1f} s, {len(violations)} violations")
        for violation in violations[:20]:
            self._show(f"  VIOLATION seed {self._seed}, {name}, data in {self._directory}: {violation}")

    # Clusters.

    @property
    def _directory(self) -> Path:
        return self._home / f"cluster-{self._clusters}"

    def _open_cluster(self, make_cluster: MakeCluster) -> FaultCluster:
        if self._maker is not make_cluster or not self._scenes_left:
            self._drop_cluster()
        if self._cluster is None:
            self._clusters += 1
            self._cluster, self._maker = make_cluster(self._directory), make_cluster
            self._scenes_left = SCENES_PER_CLUSTER
            self._cluster.start(*BROKERS)
        self._scenes_left -= 1
        return self._cluster

    def _drop_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _delete_topics(self, scene: Scene) -> None:
        """Delete what a scene has created, or else the cluster: every restoration waits for all topics."""
        names = [name for name in scene.cluster.znodes.children(TOPICS) if name.startswith(scene.topic)]
        try:
            for name in names:
                scene.clients.delete_topic(name)
        except KafkaException as error:
            self._show(f"{scene.topic}: topics are not deleted, {error}")
            self._drop_cluster()

    def table(self) -> str:
        outcomes = [
            f"{number:4} {count:8}  {outcome}"
            for number, row in self.rows.items()
            for outcome, count in sorted(row.outcomes.items())
        ]
        return "\n".join([HEADINGS, *(row.text(number) for number, row in self.rows.items()), *outcomes])

    @property
    def violations(self) -> list[str]:
        return [violation for row in self.rows.values() for violation in row.violations]
