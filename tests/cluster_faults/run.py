"""Run faults at length.

- ``python -m tests.cluster_faults.run --rounds 30 --only R6,R9 --seed 1``: 30 rounds of each of the numbers,
  spread over its faults, or of the faults whose names have these parts; a row for each number at the end.
  Several of these commands may run at once.
- ``python -m tests.cluster_faults.run --seconds 600 --seed 7``: faults in a random order for the given time;
  then times without acknowledgements.

Everything is checked after each scene of a few faults. Exits with status 1 after a violation, and keeps the
directory with all logs.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.cluster_faults.harness.catalogue import Fault, chosen_entries, direct_cluster
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.figures import Figures
from tests.cluster_faults.harness.rounds import Rounds
from tests.cluster_faults.harness.scene import Scene
from tests.cluster_faults.harness.senders import ConfluentProbe, OdradekProbe

FAULTS_PER_SCENE = 4


def play_rounds(directory: Path, count: int, seed: int, only: str) -> int:
    """Play faults so many times; return the number of violations."""
    entries, reasons = chosen_entries(only)
    for name, reason in reasons.items():
        print(f"{name} is not played: {reason}")
    rounds = Rounds(directory, seed, lambda line: print(line, flush=True))
    try:
        rounds.play(entries, count)
    finally:
        print(
            f"seed {seed}, {count} rounds of each number, {len(entries)} faults\n{rounds.table()}", flush=True
        )
    return len(rounds.violations)


def play_random(directory: Path, seconds: float, seed: int, only: str, kills: int) -> int:
    """Play faults of unproxied clusters until the time is over, and measure; return the violations."""
    entries, _ = chosen_entries(only)
    named = {entry.name: entry.play for entry in entries if entry.cluster is direct_cluster}
    cluster = direct_cluster(directory)
    try:
        cluster.start(*BROKERS)
        counts = _play(cluster, seconds, seed, named)
        print("seed {}: {} faults, {} acknowledged, {} violations".format(seed, *counts), flush=True)
        if kills:
            measure(cluster, kills)
    finally:
        cluster.close()
    return counts[2]


def _play(
    cluster: FaultCluster, seconds: float, seed: int, named: Mapping[str, Fault]
) -> tuple[int, int, int]:
    """Return faults, acknowledged records and violations."""
    rng = random.Random(seed)
    counts = [0, 0, 0]
    began, number = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        names = [rng.choice(list(named)) for _ in range(FAULTS_PER_SCENE)]
        print(f"scene {number}: {', '.join(names)}", flush=True)
        with Scene(cluster, f"scene-{number}", rng.randrange(1 << 30)) as scene:
            for name in names:
                named[name](scene)
                cluster.restore()
        print(scene.report.text(), flush=True)
        counts[0] += scene.report.faults
        counts[1] += scene.report.acknowledged
        counts[2] += len(scene.report.violations)
        number += 1
    return counts[0], counts[1], counts[2]


def measure(cluster: FaultCluster, kills: int) -> None:
    """Print figures by a probe of our client and by one of confluent-kafka."""
    cluster.restore()
    for make_probe in (OdradekProbe, ConfluentProbe):
        figures = Figures(cluster, f"figures-{time.time_ns()}", make_probe)
        text = figures.describe(
            figures.measure_kills(kills),
            [figures.measure_stop() for _ in range(3)],
            [figures.measure_rolling_restart()],
        )
        print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rounds", type=int, default=0, help="Rounds of each number, instead of --seconds.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=12, help="Kills of a leader to measure; 0 for none.")
    parser.add_argument("--only", default="", help="Numbers such as R6, or parts of names.")
    options = parser.parse_args()
    logging.getLogger("odradek").setLevel(logging.ERROR)  # our clients meet dead brokers all the time
    directory = Path(tempfile.mkdtemp(prefix="odradek-cluster-faults-"))
    print(f"data in {directory}", flush=True)
    if options.rounds:
        violations = play_rounds(directory, options.rounds, options.seed, options.only)
    else:
        violations = play_random(directory, options.seconds, options.seed, options.only, options.kills)
    if violations:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
