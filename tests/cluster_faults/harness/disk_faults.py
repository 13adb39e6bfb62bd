"""Faults of the disk of one broker: full and freed again, failing writes and syncs, no descriptors.

A full disk is no reason to leave: its leader refuses appends, its follower leaves the ISR, and both resume
by themselves. After an input/output error the log directory is offline until the broker is restarted.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster_faults.harness.disks import Call, FailingCalls, filled, on_small_disk
from tests.cluster_faults.harness.fault_cluster import BROKERS
from tests.cluster_faults.harness.scene import OFFSETS_TOPIC, PARTITIONS, TRANSACTIONS_TOPIC, Scene
from tests.cluster_faults.harness.senders import ConfluentProbe
from tests.faults.broker_partitions import append, batch_of, fetch_page, first_offset, read_values
from tests.support.kio_requests import topic_leaders
from tests.support.raw_connection import RawConnection

PREFERRED = BROKERS[0]
"""The preferred leader of the topic of probes."""
KAFKA_STORAGE_ERROR = 56
FULL_SECONDS_MAX = 3.0
RESUME_SECONDS_MAX = 30.0
APPENDS_MAX = 2_000
DESCRIPTORS_SPARE = 2
SHORT_WRITES = 30
SMALL_SEGMENT_BYTES = 16_384
VALUE_BYTES = 900


# A full disk.


def fill_disk(scene: Scene) -> None:
    """Fill the disk of a broker while it leads nothing, free it, and fill it while it leads."""
    with on_small_disk(scene.cluster, PREFERRED) as disk:
        _fill_as_follower(scene, PREFERRED, disk)
        lead_again(scene, PREFERRED)
        _fill_as_leader(scene, disk)


def _fill_as_follower(scene: Scene, broker: int, disk: Path) -> None:
    """Fill a disk until the broker has left every ISR, and see it return when it is freed."""
    scene.note("full disks")
    with filled(disk):
        wait_until_out_of_isr(scene, broker)
        scene.wait_for_progress()
    freed = time.monotonic()
    scene.cluster.wait_until_in_sync()
    _note_resumption(scene, "follower", time.monotonic() - freed)


def _fill_as_leader(scene: Scene, disk: Path) -> None:
    """Fill a disk: its leader refuses appends, serves reads, leads on, and resumes when it is freed."""
    cluster, epoch = scene.cluster, scene.cluster.znodes.broker_epoch(PREFERRED)
    scene.note("full disks")
    with ConfluentProbe(cluster.bootstrap, scene.probe_topic) as probe:
        probe.wait_for_acknowledged(0.0)
        with filled(disk):
            _wait_until_refused(scene)
            check_readable(scene, PREFERRED)
            scene.pause(FULL_SECONDS_MAX)
            is_leader = cluster.leader(scene.probe_topic) == PREFERRED
            scene.report.check(is_leader, "leader-moved: by a full disk")
        freed = time.monotonic()
        resumed = probe.wait_for_acknowledged(freed)
    _note_resumption(scene, "leader", resumed - freed)
    scene.report.check(not probe.errors, f"client-error: {probe.errors[:3]}")
    scene.wait_for_progress()
    is_same = cluster.znodes.broker_epoch(PREFERRED) == epoch
    scene.report.check(is_same, "session-lost: a broker with a full disk registered again")
    cluster.wait_until_in_sync()


def kill_on_full_disk(scene: Scene) -> None:
    """Kill a leader on a full disk, and start it while it is full: it is in sync once it is freed."""
    cluster = scene.cluster
    with on_small_disk(cluster, PREFERRED) as disk:
        lead_again(scene, PREFERRED)
        scene.note("full disks")
        with filled(disk):
            _wait_until_refused(scene)
            cluster.kill(PREFERRED)
            cluster.wait_for_leader_other_than(PREFERRED, scene.probe_topic)
            scene.wait_for_progress()
            cluster.start(PREFERRED)
            scene.wait_for_progress()
        freed = time.monotonic()
        cluster.wait_until_in_sync()
        _note_resumption(scene, "restarted broker", time.monotonic() - freed)


def _wait_until_refused(scene: Scene) -> None:
    """Append until the leader refuses: records fit into the last page of a file for a while."""
    with RawConnection(scene.cluster.address(PREFERRED)) as connection:
        for _ in range(APPENDS_MAX):
            code = append(connection, scene.probe_topic, 0, batch_of(os.urandom(900)), acks=1).error_code
            if code:
                break
    scene.report.check(code == KAFKA_STORAGE_ERROR, f"wrong-error: {code} on a full disk")


def _note_resumption(scene: Scene, who: str, seconds: float) -> None:
    scene.report.outcomes[f"ms until a {who} resumed"] += round(1000 * seconds)
    text = f"too-late: a {who} resumed {seconds:.1f} s after its disk was freed"
    scene.report.check(seconds < RESUME_SECONDS_MAX, text)


# Calls that fail.


def fail_writes(scene: Scene) -> None:
    """Let all writes of a leader to segments of one directory fail with EIO."""
    _lose_directory(scene, Call.WRITE, ".log")


def fail_syncs(scene: Scene) -> None:
    """Let all syncs of a leader in one directory fail with EIO: a checkpoint is due within seconds."""
    _lose_directory(scene, Call.SYNC, "")


def _lose_directory(scene: Scene, call: Call, suffix: str) -> None:
    """Lose one of two directories of a leader: others lead, and the other directory is served."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    calls = _with_second_directory(scene, victim)
    lead_again(scene, victim)
    lost = cluster.replica_dir(victim, scene.topic, victim - 1).parent
    other_topic = f"{scene.topic}-other-{scene.report.faults}"
    other_partition = _create_elsewhere(scene, victim, other_topic, lost)
    lost_partitions = [
        partition
        for partition in range(PARTITIONS)
        if cluster.replica_dir(victim, scene.topic, partition).parent == lost
    ]
    scene.note("failed disks")
    with calls.failing(call, errno.EIO, f"{lost}/", suffix):
        cluster.wait_for_leader_other_than(victim, scene.topic, victim - 1)
        wait_until_out_of_isr(scene, victim, lost_partitions)
        scene.wait_for_progress()
        _check_served(scene, victim, other_topic, other_partition)
    scene.report.check(calls.hits > 0, "no-fault: no call has failed")
    cluster.stop(victim)
    cluster.start(victim)
    scene.clients.delete_topic(other_topic)
    cluster.wait_until_in_sync()


def _create_elsewhere(scene: Scene, broker: int, topic: str, directory: Path) -> int:
    """Create a topic with as many partitions on a broker as it takes; return one in another directory."""
    counts = [_count_replicas(log_dir) for log_dir in scene.cluster.log_dirs(broker)]
    partitions = max(counts) - min(counts) + 2  # new ones are where there are fewest
    _create_led_by(scene, broker, topic, [[broker]] * partitions, {"min.insync.replicas": "1"})
    for partition in range(partitions):
        if scene.cluster.replica_dir(broker, topic, partition).parent != directory:
            return partition
    raise AssertionError(f"{partitions} partitions of {topic} must be in both directories")


def _create_led_by(
    scene: Scene, broker: int, topic: str, assignment: list[list[int]], settings: Mapping[str, str]
) -> None:
    """Create a topic, and wait until the leader knows of it: the controller answers before that."""
    scene.clients.create_topic(topic, assignment, settings)
    address, leaders = scene.cluster.address(broker), dict.fromkeys(range(len(assignment)), broker)
    # Metadata comes after the LeaderAndIsr request.
    scene.cluster.wait_until(lambda: topic_leaders(address, topic) == leaders, f"{broker} must lead {topic}")
    scene.cluster.wait_until_in_sync()


def _count_replicas(log_dir: Path) -> int:
    """Count the logs in a directory, without deleted ones whose files are still there."""
    return sum(re.search(r"-\d+$", path.name) is not None for path in log_dir.iterdir())


def fail_all_directories(scene: Scene) -> None:
    """Let all writes of a leader fail with EIO: it ends by itself, as Kafka's does, and others lead."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    calls = FailingCalls.load(cluster, victim)
    lead_again(scene, victim)
    scene.note("failed disks")
    with calls.failing(Call.WRITE, errno.EIO, str(cluster.log_dirs(victim)[0])):
        status = cluster.wait_for_exit(victim)
        scene.report.check(status > 0, f"wrong-exit: {status} without a log directory")
        scene.wait_for_progress()
    cluster.start(victim)
    cluster.wait_until_in_sync()


def write_less(scene: Scene) -> None:
    """Let writes of a leader end early: the rest is written by another, and nobody notices."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    calls = FailingCalls.load(cluster, victim)
    lead_again(scene, victim)
    scene.note("times of short writes")
    with calls.failing(Call.WRITE, 0, str(cluster.log_dirs(victim)[0]), ".log", SHORT_WRITES):
        cluster.wait_until(lambda: calls.hits == SHORT_WRITES, "writes must end early")
        scene.wait_for_progress()
    is_leader = cluster.leader(scene.topic, victim - 1) == victim
    scene.report.check(is_leader, "leader-moved: by short writes")


def exhaust_descriptors(scene: Scene) -> None:
    """Leave a leader no file descriptor for connections and segments; it goes on when it has some."""
    cluster, victim = scene.cluster, scene.rng.choice(BROKERS)
    lead_again(scene, victim)
    topic = f"{scene.topic}-rolled-{scene.report.faults}"
    others = [broker for broker in BROKERS if broker != victim]
    settings = {"segment.bytes": str(SMALL_SEGMENT_BYTES), "retention.ms": "-1"}
    _create_led_by(scene, victim, topic, [[victim, *others]], settings)
    epoch, written = cluster.znodes.broker_epoch(victim), dict[int, bytes]()
    scene.note("times without descriptors")
    with RawConnection(cluster.address(victim)) as connection:
        codes = _append_many(scene, connection, topic, written)
        scene.report.check(codes == {0}, f"wrong-error: {codes} with descriptors")
        with no_descriptors(cluster.pid(victim)):
            codes = _append_many(scene, connection, topic, written)
            scene.report.check(codes <= {0, KAFKA_STORAGE_ERROR}, f"wrong-error: {codes} of appends")
            scene.report.outcomes["appends refused without descriptors"] += KAFKA_STORAGE_ERROR in codes
            scene.pause(FULL_SECONDS_MAX)
        freed = time.monotonic()
        scene.wait_for_progress()
        _note_resumption(scene, "broker without descriptors", time.monotonic() - freed)
        codes = _append_many(scene, connection, topic, written)
        scene.report.check(codes == {0}, f"wrong-error: {codes} when there are descriptors again")
        present = read_values(connection, topic)
    lost = [offset for offset, value in written.items() if present.get(offset) != value]
    scene.report.check(not lost, f"lost-write: {lost[:3]} of {topic}")
    is_same = cluster.znodes.broker_epoch(victim) == epoch
    scene.report.check(is_same, "session-lost: a broker without descriptors registered again")
    scene.clients.delete_topic(topic)


@contextmanager
def no_descriptors(pid: int) -> Iterator[None]:
    """Limit the descriptors of a process to those that it has, and a few."""
    used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + DESCRIPTORS_SPARE, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


# Parts of these.


def lead_again(scene: Scene, broker: int, chosen_topics: Sequence[str] = ()) -> None:
    """Elect a broker that was restarted, where it is preferred; in all topics of a scene by default."""
    topics = chosen_topics or [scene.topic, scene.probe_topic, OFFSETS_TOPIC, TRANSACTIONS_TOPIC]
    chosen = [
        (topic, partition)
        for topic in topics
        for partition in range(1 if topic == scene.probe_topic else PARTITIONS)
        if scene.cluster.replicas(topic, partition)[0] == broker
    ]
    scene.elect_preferred(chosen)


def wait_until_out_of_isr(scene: Scene, broker: int, partitions: Iterable[int] = range(PARTITIONS)) -> None:
    """Wait until a broker has left the ISR of partitions of the scene."""
    states = [(scene.topic, partition) for partition in partitions]
    scene.cluster.wait_until(
        lambda: all(broker not in scene.cluster.znodes.partition_state(*state)["isr"] for state in states),
        f"broker {broker} must leave the ISR",
    )


def check_readable(scene: Scene, broker: int) -> None:
    """Check that a leader serves what it has."""
    with RawConnection(scene.cluster.address(broker)) as connection:
        page = fetch_page(connection, scene.probe_topic, 0, first_offset(connection, scene.probe_topic))
    is_served = page.error_code == 0 and page.records
    scene.report.check(bool(is_served), f"not-served: {page.error_code} for a fetch from a full disk")


def _check_served(scene: Scene, broker: int, topic: str, partition: int) -> None:
    with RawConnection(scene.cluster.address(broker)) as connection:
        code = append(connection, topic, partition, batch_of(b"in the other directory")).error_code
    scene.report.check(code == 0, f"not-served: {code} for an append to the directory that did not fail")


def _with_second_directory(scene: Scene, broker: int) -> FailingCalls:
    """Restart a broker with a second log directory and the library for failing calls, where it has none."""
    cluster = scene.cluster
    directories = cluster.more_log_dirs.setdefault(broker, [])
    if not directories:
        directories.append(cluster.home / f"broker-{broker}-second")
        if broker in cluster.environments:
            cluster.stop(broker)
            cluster.start(broker)
    return FailingCalls.load(cluster, broker)


def _append_many(scene: Scene, connection: RawConnection, topic: str, written: dict[int, bytes]) -> set[int]:
    """Append more than two segments; return the error codes."""
    codes = set()
    for number in range(3 * SMALL_SEGMENT_BYTES // VALUE_BYTES):
        value = b"%d " % number + os.urandom(VALUE_BYTES)
        entry = append(connection, topic, 0, batch_of(value))
        codes.add(int(entry.error_code))
        if entry.error_code == 0:
            is_new = entry.base_offset not in written
            scene.report.check(is_new, f"inconsistent-offsets: {entry.base_offset} of {topic} twice")
            written[entry.base_offset] = value
        if KAFKA_STORAGE_ERROR in codes:
            break
    return codes


FULL_DISKS = (fill_disk, kill_on_full_disk)
FAILING_DISKS = (fail_writes, fail_syncs, fail_all_directories, write_less, exhaust_descriptors)
FAILING_SHORT = (write_less, fail_syncs)
