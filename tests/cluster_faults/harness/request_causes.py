"""Causes of requests: some come with the load, others need a change of topics, members or the ISR."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.cluster_faults.harness.copier import Copier, wrong_copies
from tests.cluster_faults.harness.fault_cluster import TOPICS
from tests.cluster_faults.harness.kafka_proxy import KafkaProxy, RuleInForce
from tests.cluster_faults.harness.proxied_cluster import ProxiedCluster
from tests.cluster_faults.harness.proxy_rule import Action, Rule, Source
from tests.cluster_faults.harness.request_header import Api
from tests.cluster_faults.harness.scene import OPTIONS, PARTITIONS, SPREAD, Scene, read_log, wait_for
from tests.cluster_faults.harness.topic_changes import reassign_partition
from tests.mixed.harness.znodes import CONTROLLER

LOAD_HITS = 5
"""Requests to be changed before a fault ends, of a kind that the load sends all the time."""
COPIED_TRANSACTIONS = 5
Cause = Callable[[Scene, RuleInForce], None]


def proxy_of(scene: Scene) -> KafkaProxy:
    assert isinstance(scene.cluster, ProxiedCluster), "the fault needs a proxied cluster"
    return scene.cluster.proxy


def load(scene: Scene, rule: RuleInForce) -> None:
    """Wait for requests of the load."""
    rule.wait_for_hits(LOAD_HITS)


def rebalance(scene: Scene, rule: RuleInForce) -> None:
    """Have a member join and leave the group."""
    with scene.another_reader():
        rule.wait_for_hits()


def move_leaders(scene: Scene, rule: RuleInForce | None = None) -> None:
    """Give every partition of the scene's topic another leader, that of the partition after it."""
    states = [scene.cluster.replicas(scene.topic, partition) for partition in range(PARTITIONS)]
    targets = [*states[1:], states[0]]
    for partition, replicas in enumerate(targets):
        reassign_partition(scene, scene.topic, partition, replicas)
    scene.cluster.wait_until(
        lambda: [scene.cluster.replicas(scene.topic, number) for number in range(PARTITIONS)] == targets,
        "replicas must be in another order",
    )
    elect_preferred(scene)


def elect_preferred(scene: Scene) -> None:
    """Spread leaders over the brokers again."""
    scene.elect_preferred([(scene.topic, partition) for partition in range(PARTITIONS)])


def delete_topic(scene: Scene, rule: RuleInForce) -> None:
    """Create a topic and delete it."""
    name = f"{scene.topic}-deleted-{time.monotonic_ns()}"
    scene.clients.create_topic(name, SPREAD)
    scene.cluster.wait_until_in_sync([name])
    scene.clients.delete_topic(name)
    scene.cluster.wait_until(lambda: name not in scene.cluster.znodes.children(TOPICS), "deletion must end")


def change_isr(scene: Scene, rule: RuleInForce) -> None:
    """Keep a follower's fetches away until it leaves an ISR; then it returns."""
    lose_follower(scene)
    rule.wait_for_hits()
    scene.cluster.wait_until_in_sync([scene.topic])


def change_isr_and_controller(scene: Scene, rule: RuleInForce) -> None:
    """The same, while the controller moves at the first of these changes."""
    lose_follower(scene, rule)
    scene.cluster.znodes.delete(CONTROLLER)
    scene.cluster.controller()


def lose_follower(scene: Scene, until: RuleInForce | None = None) -> None:
    """Stall the fetches to the leader of partition 0 until it has removed a follower from the ISR.

    The leader must not be the controller, which asks itself without the network.
    """
    cluster = scene.cluster
    elect_preferred(scene)
    controller = cluster.controller()
    partition = next(
        number for number in range(PARTITIONS) if cluster.leader(scene.topic, number) != controller
    )
    leader = cluster.leader(scene.topic, partition)
    rule = Rule(Action.STALL, (Api.FETCH,), (leader,), Source.BROKERS, count=1)
    with proxy_of(scene).rule(rule) as stall:
        stall.wait_for_hits()
        if until is not None:
            until.wait_for_hits()
            return
        cluster.wait_until(
            lambda: len(cluster.znodes.partition_state(scene.topic, partition).get("isr", ())) < PARTITIONS,
            "a follower that does not fetch must leave the ISR",
        )


def copy(scene: Scene, rule: RuleInForce) -> None:
    """Copy the scene's topic in transactions, and check the copy."""
    target = f"{scene.topic}-copies"
    if target not in scene.cluster.znodes.children(TOPICS):
        scene.clients.create_topic(target, SPREAD)
        scene.cluster.wait_until_in_sync([target])
    copier = Copier(scene.cluster.bootstrap, f"{scene.topic}-copier", target, scene.rng)
    copier.topic, copier.options = scene.topic, OPTIONS
    copier.start()
    try:
        rule.wait_for_hits()
        wait_for(
            lambda: bool(copier.problem) or copier.transactions >= COPIED_TRANSACTIONS,
            lambda: f"copier must get on, got {copier.transactions} transactions",
        )
    finally:
        scene.end([copier])
    scene.report.check(not copier.problem, f"copier: {copier.problem}")
    copies = read_log(scene.cluster.bootstrap, target, "read_committed")
    source = read_log(scene.cluster.bootstrap, scene.topic, "read_committed")
    for violation in wrong_copies(source, copies):
        scene.report.violate(violation)
