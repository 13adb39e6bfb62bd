"""R3: brokers lose power, and with it what they have not synced.

One broker may lose the tails of all its logs: the others have what was acknowledged. If all lose power at one
moment, what was synced is kept: everything with ``flush.messages=1``, what is older than ``flush.ms`` and a
check of it, or by default what the kernel has written back. What is lost is the end of a log, never a part
before something that is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import confluent_kafka
from tests.cluster_faults.harness.fault_cluster import BROKERS
from tests.cluster_faults.harness.powered_clusters import LosingCluster
from tests.cluster_faults.harness.scene import SPREAD, Scene, read_log
from tests.cluster_faults.harness.senders import SETTINGS

FLUSH_MS = 500
FLUSH_CHECK_SECONDS = 1.0
SYNC_SECONDS_MAX = 2.0
"""A sync waits for what others sync on the same disks."""
WINDOW_SECONDS = FLUSH_MS / 1000 + FLUSH_CHECK_SECONDS + SYNC_SECONDS_MAX
WRITE_SECONDS = WINDOW_SECONDS + 1.0
NEVER = str(2**63 - 1)
LAZY = {"flush.messages": NEVER, "flush.ms": NEVER}
TIMED = {"flush.messages": NEVER, "flush.ms": str(FLUSH_MS)}
TURN_SECONDS = 0.01


class Acknowledged(NamedTuple):
    """A record, and when it was acknowledged, in seconds of the monotonic clock."""

    value: str
    at: float


def lose_power_of_leader(scene: Scene) -> None:
    _lose(scene, scene.cluster.leader(scene.topic))


def lose_power_of_follower(scene: Scene) -> None:
    _lose(scene, scene.rng.choice(scene.cluster.followers(scene.topic)))


def lose_power_of_controller(scene: Scene) -> None:
    _lose(scene, scene.cluster.controller())


def _lose(scene: Scene, broker: int) -> None:
    cluster = _cluster_of(scene)
    scene.pause()
    scene.note("losses of power")
    _note_lost(scene, cluster.lose_power(broker))
    cluster.wait_until(lambda: cluster.znodes.broker_epoch(broker) is None, "the session must end")
    scene.wait_for_progress()
    cluster.start(broker)


def _cluster_of(scene: Scene) -> LosingCluster:
    assert isinstance(scene.cluster, LosingCluster), "the fault needs a cluster on file systems of its own"
    return scene.cluster


def _note_lost(scene: Scene, lost_bytes: int) -> None:
    scene.report.outcomes["bytes of logs lost with the power"] += lost_bytes
    scene.report.check(lost_bytes > 0, "no-fault: a loss of power lost nothing")


class UnsyncedWriter(threading.Thread):
    """Writes to partition 0 of some topics until power is lost; notes what was acknowledged, by offset."""

    def __init__(self, bootstrap: str, *topics: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[str, dict[int, Acknowledged]] = {topic: {} for topic in topics}
        self._ends = threading.Event()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, **SETTINGS, "enable.idempotence": False}
        )

    def run(self) -> None:
        number = 0
        while not self._ends.wait(TURN_SECONDS):
            number += 1
            for topic in self.acknowledged:
                value = f"{topic} {number}"
                self._producer.produce(topic, value.encode(), partition=0, on_delivery=self._note)
            self._producer.poll(0)

    def _note(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        topic, offset, value = message.topic(), message.offset(), message.value()
        if error is None and topic is not None and offset is not None and value is not None:
            self.acknowledged[topic][offset] = Acknowledged(value.decode(), time.monotonic())

    def finish(self) -> None:
        """Give up what is not acknowledged: it would be sent to what is left of the logs."""
        self._ends.set()
        self.join()
        self._producer.purge()
        self._producer.flush(0)


@contextmanager
def _unsynced_topics(scene: Scene) -> Iterator[tuple[str, str]]:
    """Create a topic that is never flushed, and one that is flushed by time."""
    number = scene.report.faults
    lazy, timed = f"{scene.topic}-lazy-{number}", f"{scene.topic}-timed-{number}"
    scene.clients.create_topic(lazy, SPREAD[:1], LAZY)
    scene.clients.create_topic(timed, SPREAD[1:2], TIMED)
    scene.cluster.wait_until_in_sync([lazy, timed])
    yield lazy, timed
    scene.clients.delete_topic(lazy)
    scene.clients.delete_topic(timed)


def lose_power_of_all(scene: Scene) -> None:
    """Let all brokers lose power at one moment. The scene's own topics have ``flush.messages=1``."""
    cluster = _cluster_of(scene)
    with _unsynced_topics(scene) as (lazy, timed):
        writer = UnsyncedWriter(cluster.bootstrap, lazy, timed)
        writer.start()
        time.sleep(WRITE_SECONDS)
        scene.pause()
        scene.note("losses of all power")
        lost_at = time.monotonic()
        _note_lost(scene, cluster.lose_power(*BROKERS))
        writer.finish()
        cluster.start(*BROKERS)
        cluster.wait_until_in_sync()
        for topic in (lazy, timed):
            acknowledged = writer.acknowledged[topic]
            present = dict(read_log(cluster.bootstrap, topic, "read_uncommitted", 1)[0])
            since = lost_at - WINDOW_SECONDS if topic == timed else 0.0
            scene.report.violations += undocumented_losses(topic, acknowledged, present, since)
            lost = lost_offsets(acknowledged, present)
            name = "without a flush" if topic == lazy else "flushed by time"
            scene.report.outcomes[f"acknowledged records lost, {name}"] += len(lost)
            scene.report.outcomes[f"acknowledged records kept, {name}"] += len(acknowledged) - len(lost)
    scene.wait_for_progress()


def lost_offsets(acknowledged: Mapping[int, Acknowledged], present: Mapping[int, str]) -> list[int]:
    return [offset for offset, (value, _) in acknowledged.items() if present.get(offset) != value]


def undocumented_losses(
    topic: str, acknowledged: Mapping[int, Acknowledged], present: Mapping[int, str], since: float
) -> Iterator[str]:
    """Yield records that were lost although they were older, or before others that were kept."""
    lost = set(lost_offsets(acknowledged, present))
    kept_last = max(acknowledged.keys() - lost, default=-1)
    for offset in sorted(lost):
        if acknowledged[offset].at < since:
            age = since - acknowledged[offset].at
            yield f"lost-write: {offset} of {topic} was {age:.1f} s older than what may be lost"
        if offset < kept_last:
            yield f"lost-write: {offset} of {topic} was lost, {kept_last} was kept"


POWER_LOSSES: Final[tuple[Callable[[Scene], None], ...]] = (
    lose_power_of_leader,
    lose_power_of_follower,
    lose_power_of_controller,
)
POWER_LOSSES_OF_ALL: Final[tuple[Callable[[Scene], None], ...]] = (lose_power_of_all,)
