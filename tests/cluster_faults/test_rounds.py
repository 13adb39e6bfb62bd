"""Rounds of faults on a cluster and a scene that are not there: what is played, counted and kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cluster_faults.harness import rounds as rounds_module
from tests.cluster_faults.harness.catalogue import CATALOGUE, Entry, Need, chosen_entries
from tests.cluster_faults.harness.rounds import ROUNDS_PER_SCENE, SCENES_PER_CLUSTER, Rounds
from tests.faults.fault_report import FaultReport


class FakeCluster:
    """Counts what is done to it."""

    made: list[FakeCluster]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.is_closed = False
        self.znodes = SimpleNamespace(children=lambda _path: [])
        self.made.append(self)

    def start(self, *brokers: int) -> None:
        """Start nothing."""

    def restore(self) -> None:
        """Restore nothing."""

    def close(self) -> None:
        self.is_closed = True


class FakeScene:
    def __init__(self, cluster: Any, name: str, seed: int) -> None:
        self.cluster = cluster
        self.topic = name
        self.report = FaultReport(name, seed)

    def __enter__(self) -> FakeScene:
        return self

    def __exit__(self, *_: object) -> None:
        self.report.acknowledged += 100

    def unavailable_seconds(self) -> list[float]:
        return [0.5, 2.0]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(rounds_module, "Scene", FakeScene)
    FakeCluster.made = []
    return []


def entries(*faults: Any, number: str = "R1") -> list[Entry]:
    return [Entry(number, fault.__name__, fault, cluster=FakeCluster) for fault in faults]  # type: ignore[arg-type]


def test_each_fault_is_played_so_many_times(tmp_path: Path, shown: list[str]) -> None:
    played: list[str] = []

    def first(scene: Any) -> None:
        played.append("first")

    def second(scene: Any) -> None:
        played.append("second")

    rounds = Rounds(tmp_path, 1, shown.append)
    rounds.play([*entries(first, second), *entries(first, number="R2")], 7)
    assert played.count("first") + played.count("second") == 14
    assert played.count("second") in (3, 4)
    assert {number: row.rounds for number, row in rounds.rows.items()} == {"R1": 7, "R2": 7}
    assert rounds.rows["R1"].acknowledged == 100 * rounds.rows["R1"].scenes
    assert rounds.violations == []
    assert "R2         7" in rounds.table()
    assert [cluster.is_closed for cluster in FakeCluster.made] == [True, True]


def test_each_fault_is_played_and_long_ones_once(tmp_path: Path, shown: list[str]) -> None:
    played: list[str] = []
    named = {name: lambda scene, name=name: played.append(name) for name in ("a", "b", "c", "long")}
    chosen = [
        Entry("R1", name, fault, cluster=FakeCluster, is_long=name == "long")  # type: ignore[arg-type]
        for name, fault in named.items()
    ]
    for count, counts in ((1, [1]), (8, [2, 3]), (30, [9, 10])):
        played.clear()
        Rounds(tmp_path, 1, shown.append).play(chosen, count)
        assert played.count("long") == 1
        assert len(played) == max(count, len(chosen))
        assert sorted({played.count(name) for name in "abc"}) == counts


def test_order_is_of_the_seed(tmp_path: Path, shown: list[str]) -> None:
    def play(seed: int) -> list[str]:
        played: list[str] = []

        def first(scene: Any) -> None:
            played.append("first")

        def second(scene: Any) -> None:
            played.append("second")

        Rounds(tmp_path, seed, shown.append).play(entries(first, second), 10)
        return played

    assert play(1) == play(1) != play(2)


def test_violation_names_seed_and_scene_and_keeps_the_cluster(tmp_path: Path, shown: list[str]) -> None:
    def lose(scene: Any) -> None:
        if len(FakeCluster.made) == 1:
            scene.report.violate("lost-write: a")

    rounds = Rounds(tmp_path, 3, shown.append)
    rounds.play(entries(lose), 2 * ROUNDS_PER_SCENE)
    assert set(rounds.violations) == {"lost-write: a"}
    (line, *_) = [line for line in shown if "VIOLATION" in line]
    assert line == f"  VIOLATION seed 3, r1-0, data in {tmp_path}/cluster-1: lost-write: a"
    assert [cluster.home.name for cluster in FakeCluster.made] == ["cluster-1", "cluster-2"]


def test_fault_that_fails_is_a_violation(tmp_path: Path, shown: list[str]) -> None:
    def fail(scene: Any) -> None:
        raise TimeoutError("producers must get on")

    rounds = Rounds(tmp_path, 1, shown.append)
    rounds.play(entries(fail), 1)
    assert rounds.violations == ["TimeoutError: producers must get on"]
    assert (rounds.rows["R1"].rounds, rounds.rows["R1"].unchecked) == (0, 0)
    assert any("round 0 of scene r1-0: fail" in line for line in shown)


def test_violations_of_a_scene_that_ends_with_an_error_are_kept(tmp_path: Path, shown: list[str]) -> None:
    def lose(scene: Any) -> None:
        if scene.report.violations:
            raise TimeoutError("producers must get on")
        scene.report.violate("lost-write: a")
        scene.report.outcomes["losses"] += 1

    rounds = Rounds(tmp_path, 1, shown.append)
    rounds.play(entries(lose), 3)
    row = rounds.rows["R1"]
    assert rounds.violations == ["TimeoutError: producers must get on", "lost-write: a"]
    assert (row.rounds, row.unchecked, row.outcomes["losses"]) == (0, 1, 1)
    assert sum("VIOLATION" in line for line in shown) == 2


def test_cluster_is_replaced_when_it_is_old(tmp_path: Path, shown: list[str]) -> None:
    def nothing(scene: Any) -> None:
        """Do nothing."""

    Rounds(tmp_path, 1, shown.append).play(entries(nothing), ROUNDS_PER_SCENE * (SCENES_PER_CLUSTER + 1))
    assert len(FakeCluster.made) == 2


def test_faults_are_chosen_by_number_or_name() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(names) == len(set(names))
    for only, number in (("R7", "R7"), ("double_", "R7"), ("kill_leader", "R1")):
        chosen, _ = chosen_entries(only)
        assert {entry.number for entry in chosen} == {number}
    chosen, reasons = chosen_entries("R5")
    assert bool(chosen) != bool(reasons)
    assert all(need in Need for entry in CATALOGUE for need in entry.needs)
