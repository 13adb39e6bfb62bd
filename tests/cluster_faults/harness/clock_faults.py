"""Steps and drift of the wall clock of one broker, by a library; monotonic clocks are left alone.

Retention is by wall clock, as in Kafka: a step that is shorter than the retention time deletes nothing.
Sessions, lags and the timers of groups are by the monotonic clock. The timeout of a transaction is by the
wall clock of its coordinator, as in Kafka, so that one is only stepped by less than the timeout.
"""

from __future__ import annotations

import struct
import time
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster_faults.harness.cleaning_checks import LogStart, early_deletions
from tests.cluster_faults.harness.disk_faults import lead_again
from tests.cluster_faults.harness.disks import preload
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.scene import OFFSETS_TOPIC, PARTITIONS, SPREAD, Scene
from tests.cluster_faults.harness.senders import send_all
from tests.mixed.harness.coordinators import partition_of
from tests.mixed.harness.log_files import read_batches
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import RawConnection

SOURCE = Path(__file__).with_name("stepped_clock.c")
VARIABLE = "STEPPED_CLOCK"
HOUR_SECONDS = 3600
BELOW_TIMEOUT_SECONDS = 20
"""Below the timeout of transactions, 60 s."""
RETENTION_MS = 2 * HOUR_SECONDS * 1000
RECORDS = 600
SETTLE_SECONDS = 1.5
"""Longer than a check of retention takes to come."""
LONG_SESSION_SECONDS, SHORT_SESSION_SECONDS = 60.0, 6.0
STEPS = (HOUR_SECONDS, -HOUR_SECONDS, 0)
DRIFT = tuple(range(0, BELOW_TIMEOUT_SECONDS, 2))
UNKNOWN_MEMBER_ID = 25
MEMBER_ID_REQUIRED = 79
DATED = {"retention.ms": str(RETENTION_MS), "segment.bytes": "32768"}
PARTS = 4
"""Each is less than a segment in a partition."""

join_group = kio_requests("join_group", 5)
sync_group = kio_requests("sync_group", 3)
heartbeat = kio_requests("heartbeat", 3)


class BrokerClock:
    """The wall clock of one broker, as an offset to the machine's."""

    def __init__(self, cluster: FaultCluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker
        self._file = cluster.home / f"broker-{broker}.clock"

    def load(self) -> None:
        """Restart the broker with the library, if it does not have it yet."""
        if not self._file.exists():
            self._file.write_bytes(bytes(8))
        self.set(0)
        preload(self._cluster, self._broker, SOURCE, VARIABLE, self._file)

    def set(self, seconds: int) -> None:
        """Step the clock: it is so much ahead of the machine's from now on."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds * 1_000_000_000))


class RawMember:
    """A member of a group of its own, which only sends heartbeats."""

    def __init__(self, cluster: FaultCluster, group: str, session_seconds: float) -> None:
        self._group = group
        self._session = timedelta(seconds=session_seconds)
        coordinator = cluster.leader(OFFSETS_TOPIC, partition_of(group))
        self._connection = RawConnection(cluster.address(coordinator))
        response = self._join("")
        if response.error_code == MEMBER_ID_REQUIRED:
            response = self._join(response.member_id)
        assert response.error_code == 0, f"JoinGroup must succeed, got {response}"
        self._member, self._generation = response.member_id, response.generation_id
        assignment = sync_group.SyncGroupRequestAssignment(member_id=self._member, assignment=b"all")
        request = sync_group.SyncGroupRequest(
            group_id=group,
            generation_id=self._generation,
            member_id=self._member,
            assignments=(assignment,),
        )
        synced = self._connection.exchange(request)
        assert synced.error_code == 0, f"SyncGroup must succeed, got {synced}"

    def _join(self, member: str) -> Any:
        return self._connection.exchange(
            join_group.JoinGroupRequest(
                group_id=self._group,
                session_timeout=self._session,
                rebalance_timeout=self._session,
                member_id=member,
                group_instance_id=None,
                protocol_type="by hand",
                protocols=(join_group.JoinGroupRequestProtocol(name="one", metadata=b""),),
            )
        )

    def beat(self) -> int:
        request = heartbeat.HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member
        )
        return int(self._connection.exchange(request).error_code)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def step_clock(scene: Scene) -> None:
    """Step the clock of a leader and group coordinator an hour ahead, an hour back, and to the right time."""
    cluster = scene.cluster
    victim = scene.rng.choice([broker for broker in BROKERS if broker != scene.transaction_coordinator()])
    clock = BrokerClock(cluster, victim)
    clock.load()
    lead_again(scene, victim, [scene.topic, OFFSETS_TOPIC])
    topic = _write_dated(scene)
    epoch = cluster.znodes.broker_epoch(victim)
    try:
        with RawMember(cluster, _coordinated_by(scene, victim, "lively"), LONG_SESSION_SECONDS) as member:
            for seconds in STEPS:
                scene.note("clock steps")
                clock.set(seconds)
                _live(scene, member)
                _check_nothing_expired(scene, topic)
        with RawMember(cluster, _coordinated_by(scene, victim, "silent"), SHORT_SESSION_SECONDS) as member:
            clock.set(-HOUR_SECONDS)
            time.sleep(1.5 * SHORT_SESSION_SECONDS)
            code = member.beat()
    finally:
        clock.set(0)
    text = f"session-kept: a member without heartbeats got {code} after a step back"
    scene.report.check(code == UNKNOWN_MEMBER_ID, text)
    is_same = cluster.znodes.broker_epoch(victim) == epoch
    scene.report.check(is_same, "session-lost: a broker registered again after a clock step")
    scene.wait_for_progress()
    scene.clients.delete_topic(topic)


def drift_coordinator(scene: Scene) -> None:
    """Let the clock of the transaction coordinator drift by less than the timeout of transactions."""
    cluster = scene.cluster
    victim = scene.transaction_coordinator()
    clock = BrokerClock(cluster, victim)
    clock.load()
    lead_again(scene, victim)
    topic = _write_dated(scene)
    scene.note("clock drifts")
    try:
        for seconds in (*DRIFT, *reversed(DRIFT), *(-second for second in DRIFT)):
            clock.set(seconds)
            time.sleep(0.1)
        scene.wait_for_progress()
        _check_nothing_expired(scene, topic)
    finally:
        clock.set(0)
    scene.wait_for_progress()
    scene.clients.delete_topic(topic)


def _live(scene: Scene, member: RawMember) -> None:
    """Let everything go on for some time, and let the member beat."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        code = member.beat()
        if code:
            scene.report.violate(f"session-lost: a member with heartbeats got {code} after a clock step")
            return
        time.sleep(0.5)
    scene.wait_for_progress()


def _coordinated_by(scene: Scene, broker: int, kind: str) -> str:
    """Return the name of a group whose coordinator is a broker, or any if it leads no offsets."""
    # New in each round: a former member is not removed before its session is over.
    names = [f"{scene.topic}-{kind}-{scene.report.faults}-{number}" for number in range(20)]
    for name in names:
        if scene.cluster.leader(OFFSETS_TOPIC, partition_of(name)) == broker:
            return name
    return names[0]


def _write_dated(scene: Scene) -> str:
    """Write several segments with the time of now."""
    topic = f"{scene.topic}-dated-{scene.report.faults}"
    scene.clients.create_topic(topic, SPREAD, DATED)
    scene.cluster.wait_until_in_sync([topic])
    values = [f"{number} ".ljust(400, ".") for number in range(RECORDS)]
    for part in range(PARTS):
        send_all(scene.cluster.bootstrap, topic, range(PARTITIONS), values[part::PARTS])
    return topic


def _check_nothing_expired(scene: Scene, topic: str) -> None:
    """Check that all replicas have all records."""
    cluster, now_ms = scene.cluster, time.time_ns() // 1_000_000
    starts = []
    for broker in BROKERS:
        for partition in range(PARTITIONS):
            batches = read_batches(cluster.replica_dir(broker, topic, partition))
            offset = batches[0].base_offset if batches else RECORDS
            starts.append(LogStart(now_ms, offset, f"{topic}-{partition} of broker {broker}"))
    scene.report.violations += early_deletions(
        dict.fromkeys(range(RECORDS // PARTITIONS), now_ms), starts, RETENTION_MS
    )


CLOCKS = (step_clock, drift_coordinator)
