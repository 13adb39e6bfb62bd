"""Run faults in a random order, and measure: ``python -m tests.cluster_faults.run --seconds 600 --seed 7``.

Faults are played under load for the given time, a few in each scene, and everything is checked after each
scene. Then figures are printed. Exits with status 1 after a violation.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cluster_faults.harness import faults
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.figures import Figures
from tests.cluster_faults.harness.networks import Loopback, Namespaces, why_no_namespaces
from tests.cluster_faults.harness.scene import Scene
from tests.cluster_faults.harness.senders import ConfluentProbe, OdradekProbe
from tests.cluster_faults.harness.topic_changes import change_topics, cut_off, killed

FAULTS_PER_SCENE = 4
Fault = Callable[[Scene], None]


def all_faults(can_cut: bool) -> dict[str, Fault]:
    chosen: list[Fault] = [*faults.KILLS, faults.kill_all, *faults.PAUSES, *faults.STORE, faults.roll]
    if can_cut:
        chosen += faults.CUTS
    named = {fault.__name__: fault for fault in chosen}
    named["change_topics_killed"] = partial(change_topics, away=killed)
    if can_cut:
        named["change_topics_cut_off"] = partial(change_topics, away=cut_off)
    return named


def play(cluster: FaultCluster, seconds: float, seed: int, only: str) -> tuple[int, int, int]:
    """Play scenes until the time is over; return faults, acknowledged records and violations."""
    rng = random.Random(seed)
    named = {name: fault for name, fault in all_faults(cluster.network.can_cut).items() if only in name}
    counts = [0, 0, 0]
    began, number = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        names = [rng.choice(list(named)) for _ in range(FAULTS_PER_SCENE)]
        names = [
            name for at, name in enumerate(names) if not name.startswith("change") or name not in names[:at]
        ]
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=12, help="Kills of a leader to measure; 0 for none.")
    parser.add_argument("--only", default="", help="Part of the names of faults.")
    options = parser.parse_args()
    reason = why_no_namespaces()
    if reason:
        print(f"links are not cut: {reason}")
    directory = Path(tempfile.mkdtemp(prefix="odradek-cluster-faults-"))
    print(f"data in {directory}", flush=True)
    cluster = FaultCluster(directory, Loopback() if reason else Namespaces(BROKERS))
    try:
        cluster.start(*BROKERS)
        counts = play(cluster, options.seconds, options.seed, options.only)
        print("seed {}: {} faults, {} acknowledged, {} violations".format(options.seed, *counts), flush=True)
        if options.kills:
            measure(cluster, options.kills)
    finally:
        cluster.close()
    if counts[2]:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
