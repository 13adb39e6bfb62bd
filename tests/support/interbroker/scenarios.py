"""Scenarios whose traffic is recorded, in the order in which they run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

from tests.support.interbroker.clients import BROKER_CONFIG, TOPIC_CONFIG, Clients
from tests.support.interbroker.kafka_cluster import BROKERS, KafkaCluster
from tests.support.interbroker.zookeeper_log import Tree, Znode

SPREAD = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
"""Three partitions with a leader on each broker."""


class Stage:
    """The cluster, its clients, and questions about its znodes."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.clients = Clients(cluster.bootstrap)

    def node(self, path: str) -> dict:
        znode = self.cluster.tree().nodes.get(path)
        return json.loads(znode.data) if znode is not None and znode.data else {}

    def state(self, topic: str, partition: int) -> dict:
        return self.node(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def isr(self, topic: str, partition: int) -> set[int]:
        return set(self.state(topic, partition).get("isr", ()))

    def controller(self) -> int:
        return int(self.node("/controller").get("brokerid", -1))

    def wait_for_isr(self, topic: str, partition: int, *members: int) -> None:
        self.cluster.wait_until(lambda: self.isr(topic, partition) == set(members))

    def bootstrap_without(self, paused: int) -> str:
        """Return addresses of the brokers that answer."""
        return ",".join(f"127.0.0.1:{self.cluster.client_port(b)}" for b in BROKERS if b != paused)

    def other_than(self, *brokers: int) -> int:
        return next(broker for broker in BROKERS if broker not in brokers)

    def delete_topics(self) -> None:
        """Delete all topics but internal ones."""
        names = [name for name in self._topics() if not name.startswith("__")]
        for name in names:
            self.clients.delete_topic(name)
        self.cluster.wait_until(lambda: not set(names) & set(self._topics()))
        self.cluster.settle()

    def _topics(self) -> list[str]:
        paths = [path for path in self.cluster.tree().nodes if path.startswith("/brokers/topics/")]
        return [path.split("/")[3] for path in paths if path.count("/") == 3]

    def wait_for_full_isrs(self) -> None:
        """Wait until every replica of every partition is in sync."""
        self.cluster.wait_until(lambda: _isrs_are_full(self.cluster.tree()))


def startup(stage: Stage) -> None:
    """Three brokers start, one after the other, on an empty ZooKeeper."""
    for broker in BROKERS:
        stage.cluster.start_broker(broker)
        stage.cluster.settle()


def creation(stage: Stage) -> None:
    """A topic with three partitions of three replicas is created and gets its first records."""
    stage.clients.create_topic("orders", SPREAD)
    stage.wait_for_full_isrs()
    stage.cluster.settle()
    stage.clients.produce("orders", 0, 3)


def growth(stage: Stage) -> None:
    """The topic grows from three to five partitions."""
    stage.clients.create_partitions("orders", 5)
    stage.wait_for_full_isrs()


def isr_change(stage: Stage) -> None:
    """A follower is paused, leaves the ISR, and comes back; records are produced with acks=all."""
    paused = stage.other_than(stage.controller(), 1)
    live = stage.bootstrap_without(paused)
    stage.cluster.pause_broker(paused)
    # A follower at the log end stays in the ISR: it must miss a record.
    stage.clients.produce("orders", 1, 1, acks="1", bootstrap=live)
    stage.wait_for_isr("orders", 1, *(set(BROKERS) - {paused}))
    stage.clients.produce("orders", 1, 2, bootstrap=live)
    stage.cluster.resume_broker(paused)
    stage.wait_for_full_isrs()


def controlled_shutdown(stage: Stage) -> None:
    """A broker that is not the controller is shut down, and starts again."""
    stopped = stage.other_than(stage.controller())
    stage.cluster.stop_broker(stopped)
    stage.cluster.settle()
    stage.cluster.start_broker(stopped)
    stage.wait_for_full_isrs()


def preferred_election(stage: Stage) -> None:
    """Leaders move back to the preferred replicas after the shutdown of a broker."""
    stage.clients.elect_preferred([("orders", partition) for partition in range(5)])


def transactions(stage: Stage) -> None:
    """Transactions commit and abort, on partitions of all brokers, with coordinators on all brokers."""
    stage.clients.create_topic("payments", SPREAD)
    stage.cluster.settle()
    for number in range(3):
        stage.clients.run_transactions(f"writer-{number}", "payments", 3)


def reassignment(stage: Stage) -> None:
    """A replica moves from one broker to another: added, in sync, removed."""
    stage.clients.create_topic("moves", [[0, 1]])
    stage.clients.produce("moves", 0, 2)
    stage.cluster.settle()
    stage.clients.reassign(_controller_port(stage), "moves", 0, [1, 2])
    stage.wait_for_isr("moves", 0, 1, 2)


def reassignment_cancelled(stage: Stage) -> None:
    """A reassignment to a broker that does not answer is cancelled."""
    controller = stage.controller()
    target = stage.other_than(controller)
    source = stage.other_than(controller, target)
    stage.clients.create_topic("stays", [[controller, source]])
    stage.cluster.settle()
    stage.cluster.pause_broker(target)
    stage.clients.reassign(_controller_port(stage), "stays", 0, [controller, target])
    time.sleep(1.0)
    stage.clients.reassign(_controller_port(stage), "stays", 0, None)
    stage.cluster.resume_broker(target)
    stage.cluster.wait_until(lambda: not stage.node("/brokers/topics/stays")["adding_replicas"])
    stage.cluster.settle()
    stage.wait_for_full_isrs()


def config_change(stage: Stage) -> None:
    """Configs of a topic, a broker and all brokers change."""
    port = _controller_port(stage)
    stage.clients.set_config(port, TOPIC_CONFIG, "orders", "retention.ms", "3600000")
    stage.clients.set_config(stage.cluster.client_port(1), BROKER_CONFIG, "1", "background.threads", "8")
    stage.clients.set_config(port, BROKER_CONFIG, "", "message.max.bytes", "2000000")


def out_of_range(stage: Stage) -> None:
    """A follower returns after the leader has deleted the records it would fetch next."""
    controller = stage.controller()
    follower = stage.other_than(controller)
    stage.clients.create_topic("trimmed", [[controller, follower]])
    stage.clients.produce("trimmed", 0, 2)
    stage.cluster.kill_broker(follower)
    stage.wait_for_isr("trimmed", 0, controller)
    stage.clients.produce("trimmed", 0, 3)
    stage.clients.delete_records("trimmed", 0)
    stage.clients.produce("trimmed", 0, 1)
    stage.cluster.start_broker(follower)
    stage.wait_for_full_isrs()


def divergence(stage: Stage) -> None:
    """A leader dies with records that its follower lacks; it returns as follower and truncates them."""
    controller = stage.controller()
    leader = stage.other_than(controller)
    stage.clients.create_topic("diverging", [[leader, controller]])
    stage.clients.produce("diverging", 0, 2)
    stage.cluster.pause_broker(controller)
    # The first records may still answer a fetch that waits, and arrive when the follower resumes.
    for _ in range(2):
        stage.clients.produce("diverging", 0, 2, acks="1", bootstrap=stage.bootstrap_without(controller))
    stage.cluster.kill_broker(leader)
    stage.cluster.resume_broker(controller)
    stage.cluster.wait_until(lambda: stage.state("diverging", 0)["leader"] == controller)
    stage.clients.produce("diverging", 0, 1)
    stage.cluster.start_broker(leader)
    stage.wait_for_full_isrs()


def unclean_election(stage: Stage) -> None:
    """The last member of the ISR is lost; a replica outside it becomes leader."""
    controller = stage.controller()
    survivor = stage.other_than(controller)
    lost = stage.other_than(controller, survivor)
    stage.clients.create_topic("lossy", [[lost, survivor]], {"unclean.leader.election.enable": "true"})
    stage.clients.produce("lossy", 0, 2)
    stage.cluster.kill_broker(survivor)
    stage.wait_for_isr("lossy", 0, lost)
    stage.cluster.kill_broker(lost)
    stage.cluster.wait_until(lambda: stage.state("lossy", 0)["leader"] == -1)
    stage.cluster.start_broker(survivor)
    stage.cluster.wait_until(lambda: stage.state("lossy", 0)["leader"] == survivor)
    stage.cluster.settle()
    stage.cluster.start_broker(lost)
    stage.wait_for_full_isrs()


def broker_failure(stage: Stage) -> None:
    """A broker that is not the controller is killed, its session expires, and it starts again."""
    killed = stage.other_than(stage.controller())
    stage.clients.create_topic("ledger", SPREAD)
    stage.cluster.settle()
    stage.cluster.kill_broker(killed)
    stage.wait_for_isr("ledger", 0, *(set(BROKERS) - {killed}))
    stage.cluster.settle()
    stage.cluster.start_broker(killed)
    stage.wait_for_full_isrs()


def log_dir_failure(stage: Stage) -> None:
    """One of two log directories of a broker fails; the broker stays."""
    broker = stage.other_than(stage.controller())
    stage.clients.create_topic("halved", SPREAD)
    stage.cluster.settle()
    failed = stage.cluster.log_dirs(broker)[0]
    failed.rename(failed.with_suffix(".gone"))
    failed.write_text("not a directory")
    stage.cluster.wait_until(lambda: _was_written(stage, "/log_dir_event_notification/log_dir_event_"))
    stage.cluster.settle()
    stage.cluster.stop_broker(broker)
    failed.unlink()
    failed.with_suffix(".gone").rename(failed)
    stage.cluster.start_broker(broker)
    stage.wait_for_full_isrs()


def controller_failover(stage: Stage) -> None:
    """The controller is killed and starts again."""
    killed = stage.controller()
    stage.clients.create_topic("steady", SPREAD)
    stage.cluster.settle()
    stage.cluster.kill_broker(killed)
    stage.cluster.wait_until(lambda: stage.controller() not in (-1, killed))
    stage.cluster.settle()
    stage.cluster.start_broker(killed)
    stage.wait_for_full_isrs()


def deletion(stage: Stage) -> None:
    """A topic is deleted."""
    stage.clients.delete_topic("orders")
    stage.cluster.wait_until(lambda: "/brokers/topics/orders" not in stage.cluster.tree().nodes)


def deletion_resumed(stage: Stage) -> None:
    """A topic is deleted while one of its replicas is down, and goes when the broker returns."""
    stopped = stage.other_than(stage.controller())
    stage.clients.create_topic("parting", [[0, 1, 2]])
    stage.cluster.settle()
    stage.cluster.stop_broker(stopped)
    stage.cluster.settle()
    stage.clients.delete_topic("parting")
    stage.cluster.settle()
    stage.cluster.start_broker(stopped)
    stage.cluster.wait_until(lambda: "/brokers/topics/parting" not in stage.cluster.tree().nodes)


def _isrs_are_full(tree: Tree) -> bool:
    contents = {
        path: json.loads(node.data or b"") for path, node in tree.nodes.items() if _has_json(path, node)
    }
    return all(
        set(replicas) == set(contents.get(f"{path}/partitions/{partition}/state", {}).get("isr", ()))
        for path in contents
        if path.count("/") == 3
        for partition, replicas in contents[path]["partitions"].items()
    )


def _has_json(path: str, node: Znode) -> bool:
    return path.startswith("/brokers/topics/") and bool(node.data)


def _controller_port(stage: Stage) -> int:
    return stage.cluster.client_port(stage.controller())


def _was_written(stage: Stage, prefix: str) -> bool:
    return any(write.path.startswith(prefix) for write in stage.cluster.writes())


Scenario = Callable[[Stage], None]
SHORT: Final[tuple[Scenario, ...]] = (
    startup,
    creation,
    isr_change,
    controlled_shutdown,
    deletion,
    transactions,
)
FULL: Final[tuple[Scenario, ...]] = (
    startup,
    creation,
    growth,
    isr_change,
    controlled_shutdown,
    preferred_election,
    config_change,
    deletion,
    reassignment,
    reassignment_cancelled,
    out_of_range,
    divergence,
    unclean_election,
    broker_failure,
    log_dir_failure,
    deletion_resumed,
    controller_failover,
    transactions,
)
CLEAN: Final = frozenset(FULL[FULL.index(out_of_range) :])
"""Scenarios with topics of their own, before which all others are deleted."""
FIRST_USES: Final[tuple[Scenario, ...]] = (startup, creation)
"""For protocol versions of which only the versions of messages matter."""
