"""Data directories of one broker from another time, another broker or another cluster.

A copy is put back while the broker is down and out of every ISR: it has to catch up as a follower. Kafka
and we lose records only if such a broker is elected, which needs an ISR that still has it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster_faults.harness.disk_faults import lead_again
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.scene import Scene

META_PROPERTIES = "meta.properties"
OTHER_CLUSTER = "another-cluster-id-000"
REFUSAL_LINES_MAX = 2
"""The error, and what to do about it."""


def restore_stopped_copy(scene: Scene) -> None:
    """Copy the directories of a stopped broker; put the copy back after a kill."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    cluster.stop(victim)
    with _copied(cluster, victim) as copies:
        cluster.start(victim)
        _replace_by_copy(scene, victim, copies)


def restore_running_copy(scene: Scene) -> None:
    """Copy the directories while their broker writes to them: files are of different moments."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    with _copied(cluster, victim) as copies:
        _replace_by_copy(scene, victim, copies)


def _replace_by_copy(scene: Scene, victim: int, copies: list[tuple[Path, Path]]) -> None:
    """Lead with the newer data for a while, then be killed, and start with the copy."""
    cluster = scene.cluster
    cluster.wait_until_in_sync()
    lead_again(scene, victim)
    scene.wait_for_progress()
    cluster.kill(victim)
    cluster.wait_until(lambda: cluster.znodes.broker_epoch(victim) is None, "the session must end")
    cluster.wait_for_leader_other_than(victim, scene.topic, victim - 1)
    scene.wait_for_progress()
    for directory, copy in copies:
        shutil.rmtree(directory)
        copy.rename(directory)
    scene.note("old copies")
    cluster.start(victim)
    cluster.wait_until_in_sync()
    # The restored broker leads again: what it serves is checked at the end of the scene.
    lead_again(scene, victim)
    scene.wait_for_progress()


@contextmanager
def _copied(cluster: FaultCluster, broker: int) -> Iterator[list[tuple[Path, Path]]]:
    """Copy the log directories of a broker; yield pairs of directory and copy."""
    copies = [
        (directory, directory.with_name(f"{directory.name}-copy")) for directory in cluster.log_dirs(broker)
    ]
    for directory, copy in copies:
        shutil.copytree(directory, copy, copy_function=_copy_if_there, ignore_dangling_symlinks=True)
    try:
        yield copies
    finally:
        for _, copy in copies:
            shutil.rmtree(copy, ignore_errors=True)


def _copy_if_there(source: str, target: str) -> None:
    """Copy a file, unless its broker has removed or renamed it meanwhile."""
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        return


def swap_directories(scene: Scene) -> None:
    """Exchange the directories of two brokers: neither starts, and both do when they have their own."""
    cluster = scene.cluster
    first, second = scene.rng.sample(BROKERS, 2)
    scene.note("swapped directories")
    cluster.stop(first)
    cluster.stop(second)
    _exchange(cluster, first, second)
    try:
        for broker, other in ((first, second), (second, first)):
            text = cluster.start_refused(broker)
            for violation in unclear_refusals(text, "broker.id", str(other)):
                scene.report.violate(violation)
    finally:
        _exchange(cluster, first, second)
    cluster.start(first, second)
    scene.wait_for_progress()


def _exchange(cluster: FaultCluster, first: int, second: int) -> None:
    ours, theirs = cluster.log_dirs(first)[0], cluster.log_dirs(second)[0]
    aside = ours.with_name(f"{ours.name}-exchanged")
    ours.rename(aside)
    theirs.rename(ours)
    aside.rename(theirs)


def change_cluster_id(scene: Scene) -> None:
    """Start a broker with the directory of another cluster: it does not start."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    scene.note("foreign directories")
    cluster.stop(victim)
    path = cluster.log_dirs(victim)[0] / META_PROPERTIES
    before = path.read_text()
    path.write_text(re.sub(r"cluster\.id=.*", f"cluster.id={OTHER_CLUSTER}", before))
    try:
        text = cluster.start_refused(victim)
    finally:
        path.write_text(before)
    for violation in unclear_refusals(text, META_PROPERTIES, OTHER_CLUSTER):
        scene.report.violate(violation)
    cluster.start(victim)
    scene.wait_for_progress()


def unclear_refusals(text: str, *words: str) -> Iterator[str]:
    """Yield what is wrong with the output of a start that was refused."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if not re.match(r"\S+Z (DEBUG|INFO)", line)]
    if "Traceback" in text or not 0 < len(errors) <= REFUSAL_LINES_MAX:
        yield f"unclear-refusal: {len(errors)} lines of errors: {errors[:5]}"
    elif missing := [word for word in words if word not in " ".join(errors)]:
        yield f"unclear-refusal: {errors} does not name {missing}"


COPIES = (restore_stopped_copy, restore_running_copy, swap_directories, change_cluster_id)
COPIES_SHORT = (restore_stopped_copy, swap_directories, change_cluster_id)
