"""Changes of topics while a broker is away: reassignment, more partitions, deletion and creation again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from tests.cluster_faults.harness.checks import check_cluster
from tests.cluster_faults.harness.fault_cluster import BROKERS, TOPICS
from tests.cluster_faults.harness.networks import End
from tests.cluster_faults.harness.scene import PARTITIONS, SPREAD, Scene, read_log
from tests.cluster_faults.harness.senders import send_all

RECORDS = 60
Away = Callable[[Scene, int], AbstractContextManager[None]]


@contextmanager
def killed(scene: Scene, broker: int) -> Iterator[None]:
    """Kill a broker, and start it again at the end."""
    scene.note("kills")
    scene.cluster.kill(broker)
    yield
    scene.cluster.start(broker)


@contextmanager
def cut_off(scene: Scene, broker: int) -> Iterator[None]:
    """Cut a broker from everything until its session has expired and longer."""
    scene.note("cut links")
    ends = [*(other for other in BROKERS if other != broker), *End]
    with scene.cluster.cut(*(pair for end in ends for pair in ((broker, end), (end, broker)))):
        yield


def change_topics(scene: Scene, away: Away) -> None:
    """Begin changes, lose a broker, begin more, and get it back; then check where records are.

    A partition moves away from the broker that is lost, so that it can be written to meanwhile.
    """
    number = scene.report.faults
    names = {kind: f"{scene.topic}-{kind}-{number}" for kind in ("moved", "grown", "again")}
    values = {kind: _values(kind) for kind in names}
    bootstrap, clients = scene.cluster.bootstrap, scene.clients
    victim = scene.cluster.leader(scene.topic)
    others = [broker for broker in BROKERS if broker != victim]
    clients.create_topic(names["moved"], [[victim, others[0]]])
    clients.create_topic(names["grown"], SPREAD[:1])
    clients.create_topic(names["again"], SPREAD)
    scene.cluster.wait_until_in_sync(list(names.values()))
    send_all(bootstrap, names["moved"], [0], values["moved"][:RECORDS])
    send_all(bootstrap, names["again"], range(PARTITIONS), _values("deleted"))
    reassign(scene, names["moved"], others)
    clients.create_partitions(names["grown"], PARTITIONS)
    with away(scene, victim):
        scene.cluster.wait_until(
            lambda: scene.cluster.znodes.broker_epoch(victim) is None, "the session must end"
        )
        scene.cluster.controller()
        clients.delete_topic(names["again"])
        send_all(bootstrap, names["moved"], [0], values["moved"][RECORDS:])
        scene.wait_for_progress()
    scene.cluster.wait_until(
        lambda: names["again"] not in scene.cluster.znodes.children(TOPICS), "the topic must be deleted"
    )
    scene.cluster.restore()
    clients.create_topic(names["again"], SPREAD)
    scene.cluster.restore()
    send_all(bootstrap, names["grown"], range(PARTITIONS), values["grown"])
    send_all(bootstrap, names["again"], range(PARTITIONS), values["again"])
    scene.cluster.restore()
    check_topic(scene, names["moved"], [0], values["moved"], others)
    check_topic(scene, names["grown"], range(PARTITIONS), values["grown"], BROKERS)
    check_topic(scene, names["again"], range(PARTITIONS), values["again"], BROKERS)


def reassign(scene: Scene, topic: str, replicas: Sequence[int]) -> None:
    """Begin to move a partition; nothing has to be done yet when this returns."""
    reassign_partition(scene, topic, 0, replicas)


def reassign_partition(scene: Scene, topic: str, partition: int, replicas: Sequence[int]) -> None:
    host, _, port = scene.cluster.address(scene.cluster.controller()).rpartition(":")
    scene.clients.reassign(int(port), topic, partition, replicas, host)


def _values(kind: str) -> list[str]:
    return [f"{kind}-{number}" for number in range(2 * RECORDS)]


def check_topic(
    scene: Scene, topic: str, partitions: Sequence[int], values: Sequence[str], replicas: Sequence[int]
) -> None:
    """Check that a topic has these values, spread over its partitions in turn, and no others."""
    scene.report.acknowledged += len(values)
    log = read_log(scene.cluster.bootstrap, topic, "read_committed", len(partitions))
    for violation in wrong_values(topic, {number: [v for _, v in log[number]] for number in log}, values):
        scene.report.violate(violation)
    for violation in check_cluster(scene.cluster, topic, partitions, replicas):
        scene.report.violate(violation)


def wrong_values(topic: str, log: dict[int, list[str]], values: Sequence[str]) -> Iterator[str]:
    """Yield partitions that do not have exactly their share of the values, in order."""
    for partition, present in log.items():
        expected = list(values[partition :: len(log)])
        if present != expected:
            wrong = [value for value in present if value not in expected][:3]
            lost = [value for value in expected if value not in present][:3]
            name = "wrong-topic" if wrong else "lost-write" if lost else "duplicate"
            if sorted(present) == sorted(expected):
                name = "nonmonotonic-send"
            yield f"{name}: {topic}-{partition} has {wrong} and misses {lost}"
