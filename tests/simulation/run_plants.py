"""Plant known mistakes and see simulations find them: ``make sim-plants SEEDS=300 ONLY=truncate``.

Each plant is made in a copy of ``src``; seeds run until one fails. A plant that no seed finds is reported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.simulation.plants import PLANTS, SimulationPlant
from tests.simulation.plants_controller import CONTROLLER_PLANTS
from tests.simulation.run import SIMULATIONS
from tests.simulation.simulate import SimulationFailed

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 3600
PLANTS_OF = {"scripted": PLANTS, "own": CONTROLLER_PLANTS}


def find(controller: str, first: int, seeds: int) -> int:
    """Run seeds until one fails; print their number and the violation."""
    for count in range(seeds):
        try:
            SIMULATIONS[controller](first + count)
        except SimulationFailed as failed:
            print(f"found: {count + 1} seeds, {failed.name}")
            return 0
    print(f"not found in {seeds} seeds")
    return 1


def run_plant(plant: SimulationPlant, controller: str, first: int, seeds: int) -> str:
    """Return the line that the search prints for a plant."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for path, before, after in plant.edits:
            text = (source / path).read_text()
            if text.count(before) != 1:
                return f"stale: occurs {text.count(before)} times in {path}"
            (source / path).write_text(text.replace(before, after))
        options = ["--controller", controller, "--first", str(first), "--seeds", str(seeds), "--find"]
        command = [sys.executable, "-m", "tests.simulation.run_plants", *options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(("found", "not found"))]
        return lines[-1] if lines else f"crashed: {done.stderr.strip().splitlines()[-1:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant mistakes of replication and search for them.")
    parser.add_argument("--only", default="", help="Part of the description.")
    parser.add_argument("--seeds", type=int, default=300, help="Seeds at most per plant.")
    parser.add_argument("--first", type=int, default=1, help="First seed.")
    parser.add_argument("--processes", type=int, default=2, help="Plants at a time.")
    parser.add_argument("--controller", choices=PLANTS_OF, default="scripted", help="Kind of controller.")
    parser.add_argument("--find", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.find:
        return find(options.controller, options.first, options.seeds)
    plants = [plant for plant in PLANTS_OF[options.controller] if options.only in plant.mistake]
    run = partial(run_plant, controller=options.controller, first=options.first, seeds=options.seeds)
    return _report(plants, run, options.processes)


def _report(plants: Sequence[SimulationPlant], run: Callable[[SimulationPlant], str], processes: int) -> int:
    missed = 0
    with ThreadPoolExecutor(processes) as pool:
        for plant, line in zip(plants, pool.map(run, plants), strict=True):
            missed += not line.startswith("found")
            print(f"{plant.mistake}: {line}", flush=True)
    print(f"{len(plants)} plants, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
