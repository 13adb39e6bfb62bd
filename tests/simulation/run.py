"""Run many simulations: `python -m tests.simulation.run --seeds 3000 --brokers 3 --first 1 --processes 2`."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation.simulate import FAULTS, Result, SimulationFailed, simulate
from tests.simulation.simulate_controller import simulate_controller

from odradek import compiled_modules

SIMULATIONS = {"scripted": simulate, "own": simulate_controller}
SEEDS_PER_LINE = 100


def run_seed(seed: int, controller: str, brokers: int | None, faults: int) -> Result | tuple[int, str]:
    options = {} if brokers is None else {"brokers": brokers}
    try:
        return SIMULATIONS[controller](seed, faults=faults, **options)
    except SimulationFailed as failed:
        return seed, str(failed)


def run_seeds(
    seeds: Iterable[int], controller: str, brokers: int | None, faults: int, processes: int
) -> tuple[list[Result], list[str]]:
    """Run all seeds; return the results and the descriptions of the failures."""
    results, failures = [], []
    run = partial(run_seed, controller=controller, brokers=brokers, faults=faults)
    with ProcessPoolExecutor(processes) as pool:
        for outcome in pool.map(run, seeds, chunksize=4):
            if isinstance(outcome, Result):
                results.append(outcome)
            else:
                failures.append(outcome[1])
                print(outcome[1], flush=True)
            if (len(results) + len(failures)) % SEEDS_PER_LINE == 0:
                print(describe(results, failures), flush=True)
    return results, failures


def describe(results: Sequence[Result], failures: Sequence[str]) -> str:
    return (
        f"{len(results) + len(failures)} seeds, {len(failures)} failures, "
        f"{sum(result.acknowledged for result in results)} acknowledged records, "
        f"{sum(result.checks for result in results)} checks, "
        f"{sum(result.virtual_ms for result in results) / 3_600_000:.1f} virtual hours"
    )


def fingerprint(results: Iterable[Result]) -> str:
    """Return a hash of all that happened; equal for two runs of the same seeds, compiled and from source."""
    content = hashlib.sha256()
    for result in sorted(results, key=lambda result: result.seed):
        content.update(repr((result.seed, result.digest, result.checks, result.history)).encode())
    return content.hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate clusters with faults, one per seed.")
    parser.add_argument("--seeds", type=int, default=200, help="Number of seeds.")
    parser.add_argument("--first", type=int, default=1, help="First seed.")
    parser.add_argument("--controller", choices=SIMULATIONS, default="scripted", help="Kind of controller.")
    parser.add_argument("--brokers", type=int, help="Brokers per cluster (default: 3; own controller: 4).")
    parser.add_argument("--faults", type=int, default=FAULTS, help="Faults per simulation.")
    parser.add_argument("--processes", type=int, default=2, help="Processes.")
    options = parser.parse_args()
    started = time.monotonic()
    seeds = range(options.first, options.first + options.seeds)
    results, failures = run_seeds(
        seeds, options.controller, options.brokers, options.faults, options.processes
    )
    print(f"{describe(results, failures)}, {time.monotonic() - started:.0f} s")
    print(f"histories {fingerprint(results)}, modules {compiled_modules.FORM}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
