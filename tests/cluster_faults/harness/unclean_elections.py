"""R9: a replica that lacks acknowledged records is the only one that is there.

A partition has two replicas and ``min.insync.replicas`` 1. Its follower goes away, records are acknowledged
by the leader alone, the leader is killed, and the follower returns. Without unclean elections the partition
has no leader until the other replica returns, and nothing is lost. With them the follower leads, accepts
other records at the same offsets, and what is lost is what the former leader truncates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tests.cluster_faults.harness.checks import check_replicas
from tests.cluster_faults.harness.fault_cluster import BROKERS
from tests.cluster_faults.harness.scene import Scene, read_log
from tests.cluster_faults.harness.senders import send_all
from tests.cluster_faults.harness.truncations import truncated_offsets, unexplained_losses
from tests.mixed.harness.mixed_cluster import read_metadata
from tests.mixed.harness.znodes import NO_BROKER
from tests.support.interbroker.clients import TOPIC_CONFIG

SETTING = "unclean.leader.election.enable"
RECORDS_MAX = 50
LEADERLESS_SECONDS = 1.0


class DivergentPartition:
    """A partition whose ``leader`` has acknowledged records that ``follower`` lacks, in its own topic."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.topic = f"{scene.topic}-divergent-{scene.report.faults}"
        self.leader, self.follower, self.other = scene.rng.sample(BROKERS, 3)
        self.acknowledged: dict[str, int] = {}
        """Values and offsets that may be lost by an unclean election."""
        self.later: dict[str, int] = {}
        """The same, after all elections: never lost."""
        config = {"min.insync.replicas": "1", SETTING: "false"}
        scene.clients.create_topic(self.topic, [[self.leader, self.follower]], config)
        scene.cluster.wait_until_in_sync([self.topic])

    @property
    def state_leader(self) -> int:
        return self._scene.cluster.leader(self.topic)

    def _send(self, name: str) -> dict[str, int]:
        count = self._scene.rng.randrange(1, RECORDS_MAX)
        values = [f"{name}-{number}" for number in range(count)]
        cluster = self._scene.cluster
        try:
            return send_all(cluster.bootstrap, self.topic, [0], values)
        except AssertionError as error:
            metadata = {
                broker: read_metadata(cluster.address(broker), self.topic) for broker in cluster.running
            }
            error.add_note(f"metadata {metadata}; {cluster.describe()}")
            raise

    def send_later(self) -> None:
        self.later |= self._send("later")

    def diverge(self) -> None:
        """Leave the follower behind, and lose the leader; the follower is back at the end."""
        cluster = self._scene.cluster
        self.acknowledged |= self._send("common")
        if self._scene.rng.random() < 0.5:
            cluster.stop(self.follower)
        else:
            cluster.kill(self.follower)
        cluster.wait_until(
            lambda: cluster.znodes.partition_state(self.topic).get("isr") == [self.leader],
            "the follower must leave the ISR",
        )
        self.acknowledged |= self._send("leader")
        cluster.kill(self.leader)
        cluster.start(self.follower)
        cluster.wait_until(
            lambda: cluster.znodes.broker_epoch(self.leader) is None, "the session of the leader must end"
        )

    def check_leaderless(self) -> None:
        """Check that the replica that is there does not become the leader."""
        deadline = time.monotonic() + LEADERLESS_SECONDS
        self._scene.cluster.wait_until(lambda: self.state_leader == NO_BROKER, "no replica may lead")
        while time.monotonic() < deadline:
            leader = self.state_leader
            self._scene.report.check(
                leader == NO_BROKER, f"unclean-election: {leader} leads {self.topic} without being in sync"
            )
            time.sleep(0.1)

    def wait_for_follower_to_lead(self) -> None:
        self._scene.cluster.wait_until(
            lambda: self.state_leader == self.follower, "the replica that is there must lead"
        )

    def set_unclean(self) -> None:
        host, _, port = self._scene.cluster.address(self.other).rpartition(":")
        self._scene.clients.set_config(int(port), TOPIC_CONFIG, self.topic, SETTING, "true", host)

    def check(self, *, may_lose: bool) -> None:
        """Compare the log with what was acknowledged, once the former leader is back and in sync."""
        scene = self._scene
        scene.cluster.start(self.leader)
        scene.cluster.wait_until_in_sync([self.topic])
        log = read_log(scene.cluster.bootstrap, self.topic, "read_uncommitted", 1)[0]
        texts = [scene.cluster.output(broker).read_text(errors="replace") for broker in BROKERS]
        truncated = truncated_offsets(texts, f"{self.topic}-0") if may_lose else set()
        scene.report.violations += unexplained_losses(self.acknowledged, log, truncated)
        scene.report.violations += unexplained_losses(self.later, log, set())
        lost = sum(dict(log).get(offset) != value for value, offset in self.acknowledged.items())
        scene.report.check(lost > 0 or not may_lose, "an unclean election of a shorter log must lose records")
        replicas = [self.leader, self.follower]
        scene.report.violations += check_replicas(scene.cluster, self.topic, 0, replicas)
        scene.report.acknowledged += len(self.acknowledged) + len(self.later)
        scene.report.outcomes["records lost by unclean elections"] += lost


def no_unclean_election(scene: Scene) -> None:
    partition = DivergentPartition(scene)
    scene.note("divergent logs, no unclean election")
    partition.diverge()
    partition.check_leaderless()
    partition.check(may_lose=False)
    scene.wait_for_progress()


def unclean_election_by_setting(scene: Scene) -> None:
    """Elect by the topic's setting, which is changed before the leader is lost, or after."""
    partition = DivergentPartition(scene)
    scene.note("unclean elections by setting")
    if is_early := scene.rng.random() < 0.5:
        partition.set_unclean()
    partition.diverge()
    if not is_early:
        partition.check_leaderless()
        partition.set_unclean()
    _finish(scene, partition)


def unclean_election_by_command(scene: Scene) -> None:
    partition = DivergentPartition(scene)
    scene.note("unclean elections by command")
    partition.diverge()
    partition.check_leaderless()
    chosen = ("--topic", partition.topic, "--partition", "0")
    done = scene.cluster.command("elect-leaders", "--election-type", "unclean", *chosen)
    scene.report.check(done.returncode == 0, f"elect-leaders failed: {done.stdout}{done.stderr}")
    _finish(scene, partition)


def _finish(scene: Scene, partition: DivergentPartition) -> None:
    partition.wait_for_follower_to_lead()
    partition.send_later()
    partition.check(may_lose=True)
    scene.wait_for_progress()


UNCLEAN_ELECTIONS: Final[tuple[Callable[[Scene], None], ...]] = (
    no_unclean_election,
    unclean_election_by_setting,
    unclean_election_by_command,
)
