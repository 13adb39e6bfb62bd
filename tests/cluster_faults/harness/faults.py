"""Faults, each as a function of a scene. Numbers are those of the list of faults in docs/correctness.md."""

from __future__ import annotations

import time

from tests.cluster_faults.harness.fault_cluster import BROKERS, SESSION_TIMEOUT_MS
from tests.cluster_faults.harness.networks import End
from tests.cluster_faults.harness.scene import Scene
from tests.cluster_faults.harness.senders import ConfluentProbe

BEYOND_SESSION_SECONDS = 1.6 * SESSION_TIMEOUT_MS / 1000
SHORT_SECONDS = 1.0


# Kills.


def _kill(scene: Scene, broker: int) -> None:
    scene.pause()
    scene.note("kills")
    scene.cluster.kill(broker)
    scene.cluster.wait_until(
        lambda: scene.cluster.znodes.broker_epoch(broker) is None, "the session of a killed broker must end"
    )
    scene.wait_for_progress()
    scene.cluster.start(broker)


def kill_leader(scene: Scene) -> None:
    _kill(scene, scene.cluster.leader(scene.topic))


def kill_follower(scene: Scene) -> None:
    controller = scene.cluster.controller()
    _kill(scene, next(broker for broker in scene.cluster.followers(scene.topic) if broker != controller))


def kill_controller(scene: Scene) -> None:
    _kill(scene, scene.cluster.controller())


def kill_group_coordinator(scene: Scene) -> None:
    _kill(scene, scene.group_coordinator())


def kill_transaction_coordinator(scene: Scene) -> None:
    _kill(scene, scene.transaction_coordinator())


def kill_all(scene: Scene) -> None:
    scene.pause()
    scene.note("kills of all brokers")
    scene.cluster.kill(*BROKERS)
    scene.cluster.start(*BROKERS)
    scene.wait_for_progress()


# Pauses.


def pause_leader(scene: Scene) -> None:
    _pause(scene, scene.cluster.leader(scene.topic))


def pause_controller(scene: Scene) -> None:
    _pause(scene, scene.cluster.controller())


def _pause(scene: Scene, broker: int) -> None:
    """Pause a broker for longer than its session; it resumes with requests in its queues."""
    scene.pause()
    scene.note("pauses")
    epoch = scene.cluster.znodes.broker_epoch(broker) or 0
    with scene.cluster.session_expired(broker):
        scene.wait_for_progress()
    scene.cluster.wait_until(
        lambda: (scene.cluster.znodes.broker_epoch(broker) or 0) > epoch, "the broker must register again"
    )


def pause_zookeeper(scene: Scene) -> None:
    """Pause ZooKeeper: the data plane goes on."""
    scene.note("pauses of ZooKeeper")
    with scene.cluster.zookeeper_paused():
        scene.wait_for_progress()
        time.sleep(SHORT_SECONDS)
        scene.wait_for_progress()


# Links.


def cut_leader_from_followers(scene: Scene) -> None:
    """Cut a leader from its followers in both directions; it keeps its session."""
    leader, followers = scene.cluster.leader(scene.topic), scene.cluster.followers(scene.topic)
    directions = [pair for other in followers for pair in ((leader, other), (other, leader))]
    scene.note("cut links")
    with scene.cluster.cut(*directions):
        time.sleep(BEYOND_SESSION_SECONDS)
    scene.wait_for_progress()


def cut_leader_towards_followers(scene: Scene) -> None:
    """Drop what a leader sends to its followers: their fetches arrive, its responses do not."""
    leader, followers = scene.cluster.leader(scene.topic), scene.cluster.followers(scene.topic)
    scene.note("cut links")
    with scene.cluster.cut(*((leader, other) for other in followers)):
        time.sleep(BEYOND_SESSION_SECONDS)
    scene.wait_for_progress()


def cut_follower_towards_leader(scene: Scene) -> None:
    """Drop what a follower sends: it must leave the ISR, or writes stop."""
    controller = scene.cluster.controller()
    leader = scene.cluster.leader(scene.topic)
    follower = next((b for b in scene.cluster.followers(scene.topic) if b != controller), controller)
    others = [broker for broker in BROKERS if broker != follower]
    scene.note("cut links")
    with scene.cluster.cut(*((follower, other) for other in others)):
        scene.cluster.wait_until(
            lambda: follower not in scene.cluster.znodes.partition_state(scene.topic)["isr"],
            f"follower {follower} must leave the ISR of leader {leader}",
        )
        time.sleep(SHORT_SECONDS)
    scene.wait_for_progress()


def cut_broker_from_zookeeper(scene: Scene) -> None:
    """Cut a leader, which is the controller if it can be, from ZooKeeper for longer than its session."""
    leader = scene.cluster.leader(scene.topic)
    scene.note("cut links")
    with scene.cluster.cut((leader, End.ZOOKEEPER), (End.ZOOKEEPER, leader)):
        scene.cluster.wait_for_leader_other_than(leader, scene.topic)
        scene.wait_for_progress()
    scene.cluster.wait_until(
        lambda: scene.cluster.znodes.broker_epoch(leader) is not None, "the broker must register again"
    )


def cut_clients_from_leader(scene: Scene) -> None:
    """Cut clients from a leader that has no reason to lose its leadership."""
    leader = scene.cluster.leader(scene.topic)
    scene.note("cut links")
    with scene.cluster.cut((End.CLIENTS, leader), (leader, End.CLIENTS)):
        time.sleep(BEYOND_SESSION_SECONDS)
    scene.wait_for_progress()


def cut_leader_towards_clients(scene: Scene) -> None:
    """Drop the responses of a leader: requests are done and sent again."""
    leader = scene.cluster.leader(scene.topic)
    scene.note("cut links")
    with scene.cluster.cut((leader, End.CLIENTS)):
        time.sleep(BEYOND_SESSION_SECONDS)
    scene.wait_for_progress()


# ZooKeeper.


def expire_leader(scene: Scene) -> None:
    _expire(scene, scene.cluster.leader(scene.topic))


def expire_controller(scene: Scene) -> None:
    _expire(scene, scene.cluster.controller())


def _expire(scene: Scene, broker: int) -> None:
    scene.pause()
    scene.note("expired sessions")
    epoch = scene.cluster.znodes.broker_epoch(broker) or 0
    scene.cluster.expire_session(broker)
    scene.cluster.wait_until(
        lambda: (scene.cluster.znodes.broker_epoch(broker) or 0) > epoch, "the broker must register again"
    )
    scene.wait_for_progress()


def kill_zookeeper(scene: Scene) -> None:
    """Kill ZooKeeper and start it again: the data plane goes on meanwhile."""
    scene.note("kills of ZooKeeper")
    with scene.cluster.zookeeper_killed():
        scene.wait_for_progress()
    scene.wait_for_progress()


def slow_zookeeper(scene: Scene) -> None:
    """Let everything of ZooKeeper take long, and kill the controller meanwhile."""
    scene.note("times of a slow ZooKeeper")
    with scene.cluster.zookeeper_slow(0.2):
        scene.wait_for_progress()
        _kill(scene, scene.cluster.controller())


# Restarts.


def roll(scene: Scene) -> None:
    """Restart one broker after the other by SIGTERM; note the longest stall of a partition."""
    with ConfluentProbe(scene.cluster.bootstrap, scene.probe_topic) as probe:
        probe.wait_for_acknowledged(0.0)
        began = time.monotonic()
        for broker in BROKERS:
            scene.note("restarts")
            scene.cluster.stop(broker)
            scene.cluster.start(broker)
            scene.cluster.wait_until_in_sync()
        ended = probe.wait_for_acknowledged(time.monotonic())
    scene.report.check(not probe.errors, f"client-error: {probe.errors[:3]}")
    scene.report.outcomes["longest stall in ms"] = round(1000 * probe.longest_stall(began, ended))


KILLS = (
    kill_leader,
    kill_follower,
    kill_controller,
    kill_group_coordinator,
    kill_transaction_coordinator,
)
PAUSES = (pause_leader, pause_controller, pause_zookeeper)
CUTS = (
    cut_leader_from_followers,
    cut_leader_towards_followers,
    cut_follower_towards_leader,
    cut_broker_from_zookeeper,
    cut_clients_from_leader,
    cut_leader_towards_clients,
)
STORE = (expire_leader, expire_controller, kill_zookeeper, slow_zookeeper)
