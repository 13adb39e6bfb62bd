"""Rounds of faults: each chosen fault so many times, a few in each scene, all checks after each scene."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster_faults.harness.catalogue import Entry, MakeCluster
from tests.cluster_faults.harness.fault_cluster import BROKERS, TOPICS, FaultCluster
from tests.cluster_faults.harness.figures import percentile
from tests.cluster_faults.harness.scene import Scene

ROUNDS_PER_SCENE = 8
SCENES_PER_CLUSTER = 12
"""Events of brokers are read as a whole after each scene: a cluster must not become too old."""


@dataclass
class Row:
    """Figures of one number. Rounds of a scene that could not be checked do not count."""

    rounds: int = 0
    scenes: int = 0
    acknowledged: int = 0
    fault_seconds: float = 0.0
    seconds: float = 0.0
    """With load, restoration and checks."""
    unavailable: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def text(self, number: str) -> str:
        times = "      -       -"
        if self.unavailable:
            p50, p99 = (percentile(self.unavailable, percent) for percent in (50, 99))
            times = f"{p50:7.2f} {p99:7.2f}"
        return (
            f"{number:4} {self.rounds:7} {self.acknowledged:12} {self.fault_seconds:14.0f} "
            f"{self.seconds:7.0f} {len(self.violations):10} {times}"
        )


HEADINGS = (
    "      rounds acknowledged  fault seconds seconds violations  p50 s   p99 s (without acknowledgements)"
)


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
        """Play each entry so many times, in an order that the seed decides."""
        try:
            for number, make_cluster in dict.fromkeys((entry.number, entry.cluster) for entry in entries):
                chosen = [each for each in entries if (each.number, each.cluster) == (number, make_cluster)]
                for scene_entries in self._scenes(number, chosen, count):
                    self._play_scene(number, scene_entries, make_cluster)
        finally:
            self._drop_cluster()

    def _scenes(self, number: str, entries: Sequence[Entry], count: int) -> Iterator[Sequence[Entry]]:
        rng = random.Random(f"{self._seed} {number}")
        rounds = [entry for _ in range(count) for entry in entries]
        rng.shuffle(rounds)
        for begin in range(0, len(rounds), ROUNDS_PER_SCENE):
            yield rounds[begin : begin + ROUNDS_PER_SCENE]

    def _play_scene(self, number: str, entries: Sequence[Entry], make_cluster: MakeCluster) -> None:
        row = self.rows.setdefault(number, Row())
        name = f"{number.lower()}-{row.scenes}"
        seed = random.Random(f"{self._seed} {name}").randrange(1 << 30)
        began = time.monotonic()
        violations: list[str] = []
        try:
            scene = Scene(self._open_cluster(make_cluster), name, seed)
            fault_seconds = self._play_entries(scene, entries)
            violations += scene.report.violations
            row.rounds += len(entries)
            row.fault_seconds += fault_seconds
            row.acknowledged += scene.report.acknowledged
            row.unavailable += scene.unavailable_seconds()
            if not violations:
                self._delete_topics(scene)
        except Exception as error:  # noqa: BLE001 - the next rounds are played on another cluster
            violations.append(f"{type(error).__name__}: {error}")
            self._show(traceback.format_exc())
        seconds = time.monotonic() - began
        row.seconds += seconds
        row.scenes += 1
        row.violations += violations
        self._describe_scene(name, entries, seconds, violations)
        if violations:
            self._drop_cluster()

    @staticmethod
    def _play_entries(scene: Scene, entries: Sequence[Entry]) -> float:
        """Return the seconds that the faults took, once the scene is checked."""
        seconds = 0.0
        with scene:
            for at, entry in enumerate(entries):
                began = time.monotonic()
                try:
                    entry.play(scene)
                except Exception as error:
                    error.add_note(f"round {at} of scene {scene.topic}: {entry.name}")
                    raise
                seconds += time.monotonic() - began
                scene.cluster.restore()
        return seconds

    def _describe_scene(
        self, name: str, entries: Sequence[Entry], seconds: float, violations: list[str]
    ) -> None:
        names = ", ".join(entry.name for entry in entries)
        self._show(f"{name}: {names}: {seconds:.1f} s, {len(violations)} violations")
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

    @staticmethod
    def _delete_topics(scene: Scene) -> None:
        """Delete what a scene has created: every restoration waits for all topics."""
        names = [name for name in scene.cluster.znodes.children(TOPICS) if name.startswith(scene.topic)]
        for name in names:
            scene.clients.delete_topic(name)

    def table(self) -> str:
        return "\n".join([HEADINGS, *(row.text(number) for number, row in self.rows.items())])

    @property
    def violations(self) -> list[str]:
        return [violation for row in self.rows.values() for violation in row.violations]
