"""Replication holds its invariants in simulated clusters, under every kind of fault."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.simulation.plants import PLANTS
from tests.simulation.plants_controller import CONTROLLER_PLANTS
from tests.simulation.run_plants import ROOT
from tests.simulation.simulate import TURN_SIZES, simulate
from tests.simulation.simulate_controller import simulate_controller

from odradek.testing.cluster import ClusterOfBrokers

SEEDS = 200
CONTROLLER_SEEDS = 300
SEEDS_PER_TEST = 5


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_invariants_hold(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        assert simulate(seed).acknowledged > 0, f"seed {seed} acknowledged nothing"


@pytest.mark.parametrize("brokers", [1, 2, 5])
def test_invariants_hold_with_other_numbers_of_brokers(brokers: int) -> None:
    assert simulate(1_000 + brokers, brokers).checks > 0


def test_simulation_repeats_exactly() -> None:
    assert simulate(7) == simulate(7)


@pytest.mark.parametrize("first", range(1, CONTROLLER_SEEDS + 1, SEEDS_PER_TEST))
def test_invariants_hold_under_our_controller(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        assert simulate_controller(seed).acknowledged > 0, f"seed {seed} acknowledged nothing"


@pytest.mark.parametrize("brokers", [1, 2, 3])
def test_invariants_hold_under_our_controller_with_other_numbers_of_brokers(brokers: int) -> None:
    assert simulate_controller(1_000 + brokers, brokers).checks > 0


def test_simulation_of_our_controller_repeats_exactly() -> None:
    assert simulate_controller(7) == simulate_controller(7)


@pytest.mark.parametrize(
    "simulation", ["simulate.simulate", "simulate_controller.simulate_controller"], ids=["scripted", "own"]
)
def test_seed_gives_the_same_run_under_any_hash_seed(simulation: str) -> None:
    module, name = simulation.split(".")
    code = f"from tests.simulation.{module} import {name}; print({name}(12))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
        )
        for hash_seed in ("1", "2")
    ]
    results = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert results[0] == results[1]


@pytest.mark.parametrize("simulation", [simulate, simulate_controller], ids=["scripted", "own"])
def test_short_turns_interrupt_the_work_on_partitions(monkeypatch, simulation) -> None:
    seed = TURN_SIZES.index(1)
    interrupted = simulation(seed)
    monkeypatch.setattr("tests.simulation.simulate.TURN_SIZES", [max(TURN_SIZES)])
    assert simulation(seed).digest != interrupted.digest


@pytest.mark.parametrize("simulation", [simulate, simulate_controller], ids=["scripted", "own"])
def test_every_state_is_checked_after_the_turn_that_changed_it(monkeypatch, simulation) -> None:
    """A check skips brokers that have not run: what it has seen of them is still what they are."""
    check, audits = ClusterOfBrokers._check, 0

    def audited_check(cluster: ClusterOfBrokers) -> None:
        nonlocal audits
        check(cluster)
        seen = dict(cluster.checker._seen)
        cluster.incarnations_changed()
        cluster.checker.check()
        assert cluster.checker._seen == seen
        audits += 1

    monkeypatch.setattr(ClusterOfBrokers, "_check", audited_check)
    for seed in range(21, 24):
        simulation(seed)
    assert audits > 10_000


@pytest.mark.parametrize("plant", [*PLANTS, *CONTROLLER_PLANTS], ids=lambda plant: plant.mistake)
def test_plant_fits_the_code(plant) -> None:
    for path, before, _ in plant.edits:
        assert (ROOT / "src" / path).read_text().count(before) == 1
