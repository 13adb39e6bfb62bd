"""Transactions of many workers on a cluster whose brokers are killed by their roles.

The workers, the reader and the checks are those of ``tests/faults/transactions``. Requests go to where a
client would send them: to the coordinator of a transactional id or a group, to the leader of a partition.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from tests.cluster_faults.harness.fault_cluster import TOPICS, FaultCluster
from tests.cluster_faults.harness.scene import OFFSETS_TOPIC, SPREAD, TRANSACTIONS_TOPIC, Scene
from tests.faults.fault_report import FaultReport
from tests.faults.transactions import frames, ledger
from tests.faults.transactions.checker import SIDES
from tests.faults.transactions.reader import Reader, TopicAndPartition
from tests.faults.transactions.worker import INPUTS, Instance, Worker, codes_of
from tests.mixed.harness.coordinators import partition_of
from tests.support.kio_requests import fetch
from tests.support.raw_connection import ConnectionEnded, RawConnection

TRANSACTIONS_SHORT = 400
TRANSACTIONS_LONG = 3_500
KILLS = 2
KILLS_LONG = 3
LEADER_SECONDS_MAX = 15.0
MOVED = frozenset({3, 5, 6, 14, 15, 16})
"""Error codes after which the leader or the coordinator is looked up again."""
HEADER_BYTES = len(frames.header_v1(0, 0))


class ClusterConnection(RawConnection):
    """Connections to all brokers, opened when they are needed; each request goes where it belongs.

    Responses come in the order of requests, as on one connection.
    """

    def __init__(self, cluster: FaultCluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, RawConnection] = {}
        self._leaders: dict[TopicAndPartition, int] = {}
        self._waiting: deque[list[int]] = deque()
        """Brokers of each request whose responses are to be received."""

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def forget_leaders(self) -> None:
        self._leaders.clear()

    def to_leader(self, partition: TopicAndPartition) -> int:
        """Return the leader of a partition; its connection is open."""
        broker = self._leaders.get(partition)
        if broker is None:
            broker = self._leaders[partition] = self._wait_for_leader(partition)
        if broker not in self._connections:
            self._connections[broker] = RawConnection(self._cluster.address(broker))
        return broker

    def _wait_for_leader(self, partition: TopicAndPartition) -> int:
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        while (broker := self._cluster.leader(*partition)) < 0:
            if time.monotonic() > deadline:
                raise ConnectionEnded(f"{partition} must have a leader")
            time.sleep(0.02)
        return broker

    def send_frame(self, body: bytes) -> None:
        """Send a request of a transaction; a Produce request in parts, one for each leader."""
        brokers = []
        for partition, part in split_request(body):
            broker = self.to_leader(partition)
            self._connections[broker].send_frame(part)
            brokers.append(broker)
        self._waiting.append(brokers)

    def receive_frames(self) -> list[bytes]:
        """Receive all responses to the oldest request."""
        return [self._connections[broker].receive_frame() for broker in self._waiting.popleft()]

    def receive_frame(self) -> bytes:
        (frame,) = self.receive_frames()
        return frame

    def exchange(self, message: Any) -> Any:
        """Send an OffsetFetch to its coordinator, or a Fetch in parts, one for each leader."""
        if isinstance(message, fetch.FetchRequest):
            return SimpleNamespace(responses=self._fetch(message))
        broker = self.to_leader((OFFSETS_TOPIC, partition_of(message.group_id)))
        response = self._connections[broker].exchange(message)
        if int(response.error_code) in MOVED:
            self.forget_leaders()
        return response

    def _fetch(self, message: Any) -> list[Any]:
        by_leader: dict[int, list[Any]] = {}
        for topic in message.topics:
            for partition in topic.partitions:
                leader = self.to_leader((str(topic.topic), int(partition.partition)))
                part = fetch.FetchTopic(topic=topic.topic, partitions=(partition,))
                by_leader.setdefault(leader, []).append(part)
        responses: list[Any] = []
        for leader, topics in by_leader.items():
            request = _with_topics(message, topics)
            responses += self._connections[leader].exchange(request).responses
        codes = {int(entry.error_code) for topic in responses for entry in topic.partitions}
        if codes & MOVED:
            self.forget_leaders()
            time.sleep(0.02)
        return responses


def _with_topics(message: Any, topics: Iterable[Any]) -> Any:
    return fetch.FetchRequest(
        max_wait=message.max_wait / 4,  # leaders are asked one after the other
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation_level=message.isolation_level,
        topics=tuple(topics),
        forgotten_topics_data=(),
    )


def split_request(body: bytes) -> list[tuple[TopicAndPartition, bytes]]:
    """Return the parts of a request with the partition whose leader gets them."""
    (api_key,) = struct.unpack_from(">h", body)
    name, at = _string(body, HEADER_BYTES)
    if api_key == frames.COMMIT_OFFSETS:
        group, _ = _string(body, at)
        return [((OFFSETS_TOPIC, partition_of(group)), body)]
    if api_key != frames.PRODUCE:
        return [((TRANSACTIONS_TOPIC, partition_of(name)), body)]
    settings_end = at + 6  # acks and timeout
    (count,) = struct.unpack_from(">i", body, settings_end)
    head, at = body[:settings_end] + struct.pack(">i", 1), settings_end + 4
    parts = []
    for _ in range(count):
        topic, end = _string(body, at)
        _, partition, size = struct.unpack_from(">iii", body, end)
        end += 12 + size
        parts.append(((topic, partition), head + body[at:end]))
        at = end
    return parts


def _string(body: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", body, at)
    return body[at + 2 : at + 2 + size].decode(), at + 2 + size


class ClusterInstance(Instance):
    cluster: FaultCluster

    def connect(self, address: str) -> ClusterConnection:
        return ClusterConnection(self.cluster)

    def codes(self, bodies: list[bytes]) -> list[list[int]]:
        connection = self._connection
        assert isinstance(connection, ClusterConnection)
        for body in bodies:
            connection.send_frame(body)
        codes = [
            [code for frame in connection.receive_frames() for code in codes_of(body, frame)]
            for body in bodies
        ]
        if any(code in MOVED for request in codes for code in request):
            connection.forget_leaders()
        return codes


class ClusterReader(Reader):
    cluster: FaultCluster

    def connect(self) -> ClusterConnection:
        return ClusterConnection(self.cluster)

    def _process_response(self, key: TopicAndPartition, entry: Any) -> None:
        """Ignore a new leader until it knows again how far records are committed, as in Kafka."""
        if entry.last_stable_offset >= self._stable[key]:
            super()._process_response(key, entry)


class KilledRoles:
    """A cluster whose coordinators and leaders are killed in turn, as one broker that is killed."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._roles: deque[TopicAndPartition] = deque(
            [(TRANSACTIONS_TOPIC, partition_of("clerk-0")), (SIDES[0], 0), (OFFSETS_TOPIC, 0), (SIDES[1], 1)]
        )
        self._roles.rotate(scene.rng.randrange(len(self._roles)))

    @property
    def bootstrap(self) -> str:
        return self._scene.cluster.bootstrap

    def kill(self) -> None:
        cluster, role = self._scene.cluster, self._roles[0]
        self._roles.rotate(-1)
        victim = cluster.leader(*role)
        cluster.kill(victim)
        self._scene.report.outcomes[f"kills of the leader of {role[0]}"] += 1
        cluster.wait_for_leader_other_than(victim, *role)

    def start(self) -> None:
        self._scene.cluster.restore()


def keep_ledger(scene: Scene, transactions: int = TRANSACTIONS_SHORT, kills: int = KILLS) -> None:
    """Commit transactions while producers are abandoned and doubled, and brokers are killed."""
    topics = [INPUTS, *SIDES]
    for topic, partitions in zip(topics, (ledger.CLERKS, ledger.PARTITIONS, ledger.PARTITIONS), strict=True):
        scene.clients.create_topic(topic, [SPREAD[number % len(SPREAD)] for number in range(partitions)])
    scene.cluster.wait_until_in_sync()

    class SceneInstance(ClusterInstance):
        cluster = scene.cluster

    class SceneWorker(Worker):
        make_instance = SceneInstance

    class SceneReader(ClusterReader):
        cluster = scene.cluster

    report = FaultReport(scene.topic, scene.rng.randrange(1 << 30))
    ledger.keep(KilledRoles(scene), transactions, kills, report, SceneWorker, SceneReader)
    _add(scene, report)
    _forget(scene, topics)


def keep_long_ledger(scene: Scene) -> None:
    keep_ledger(scene, TRANSACTIONS_LONG, KILLS_LONG)


def _add(scene: Scene, report: FaultReport) -> None:
    scene.report.faults += report.faults
    scene.report.acknowledged += report.acknowledged
    scene.report.outcomes.update(report.outcomes)
    scene.report.violations += report.violations


def _forget(scene: Scene, topics: Sequence[str]) -> None:
    """Delete topics, and with them the committed offsets of their groups."""
    for topic in topics:
        scene.clients.delete_topic(topic)
    scene.cluster.wait_until(
        lambda: not set(topics) & set(scene.cluster.znodes.children(TOPICS)), "topics must be deleted"
    )


TRANSACTIONS = (keep_ledger,)
