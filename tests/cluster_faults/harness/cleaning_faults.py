"""Compaction, retention and new segments under load, while readers start over and brokers are killed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import confluent_kafka
from tests.cluster_faults.harness.cleaning_checks import (
    KeyedRecord,
    LogStart,
    decode_records,
    differing_tails,
    early_deletions,
    last_offsets,
    lost_keys,
)
from tests.cluster_faults.harness.fault_cluster import BROKERS, FaultCluster
from tests.cluster_faults.harness.scene import SPREAD, Scene
from tests.cluster_faults.harness.senders import FLUSH_SECONDS_MAX, SETTINGS
from tests.faults.broker_partitions import EARLIEST_TIMESTAMP, fetch_page, list_offsets
from tests.mixed.harness.log_files import Batch, read_batches, read_high_watermark
from tests.support.raw_connection import ConnectionEnded, RawConnection

SEGMENT_BYTES = 16_384
BATCH_BYTES_MAX = SEGMENT_BYTES // 2
"""After a stall many records wait: a batch must fit into a segment."""
RETENTION_MS = 4_000
KEYS = 60
TOMBSTONES_SHARE = 0.1
VALUE_BYTES = 300
RECORDS_PER_TURN = 6
TURN_SECONDS = 0.02
READ_SECONDS_MAX = 60.0
OFFSET_OUT_OF_RANGE = 1
REPLICA_READS_MAX = 20
SETTLE_SECONDS = 1.0
STATES = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
}
T = TypeVar("T")
LATEST = {"retention.ms": str(RETENTION_MS), "segment.bytes": str(SEGMENT_BYTES)}


class KeyedWriter(threading.Thread):
    """Writes keys to one topic and the same records to another; notes what is acknowledged."""

    def __init__(self, bootstrap: str, states: str, latest: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, **SETTINGS, "batch.size": BATCH_BYTES_MAX}
        )
        self._states, self._latest = states, latest
        self._rng = random.Random(seed)
        self._ends = threading.Event()
        self.written: dict[int, KeyedRecord] = {}
        self.timestamps: dict[int, int] = {}
        """Of the topic with retention, by offset."""
        self.errors: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._ends.wait(TURN_SECONDS):
            for _ in range(RECORDS_PER_TURN):
                number += 1
                self._send(number)
            self._producer.poll(0)
        if left := self._producer.flush(FLUSH_SECONDS_MAX):
            self.errors.append(f"{left} records were not acknowledged within {FLUSH_SECONDS_MAX} s")

    def finish(self) -> None:
        self._ends.set()
        self.join()

    def _send(self, number: int) -> None:
        value = f"{number} ".ljust(VALUE_BYTES, ".")
        is_deleted = self._rng.random() < TOMBSTONES_SHARE
        record = KeyedRecord(f"key-{self._rng.randrange(KEYS)}", None if is_deleted else value)
        timestamp = time.time_ns() // 1_000_000

        def on_state(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            self._note(error, message, self.written, record)

        def on_latest(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            self._note(error, message, self.timestamps, timestamp)

        data = record.value.encode() if record.value is not None else None
        self._producer.produce(self._states, data, record.key.encode(), 0, on_delivery=on_state)
        self._producer.produce(
            self._latest, value.encode(), partition=0, timestamp=timestamp, on_delivery=on_latest
        )

    def _note(
        self,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
        noted: dict[int, T],
        what: T,
    ) -> None:
        offset = message.offset()
        if error is not None or offset is None:
            self.errors.append(str(error))
        else:
            noted[offset] = what


class StateReader(threading.Thread):
    """Reads the compacted topic from its start, again and again: no key may be older than it was before."""

    def __init__(self, bootstrap: str, topic: str, writer: KeyedWriter) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._writer = bootstrap, topic, writer
        self._ends = threading.Event()
        self.reads = 0
        self.violations: list[str] = []

    def run(self) -> None:
        while not self._ends.wait(TURN_SECONDS):
            self.read()

    def finish(self) -> None:
        """Stop, and read once more."""
        self._ends.set()
        self.join()
        self.read()

    def read(self) -> None:
        before = last_offsets(dict(self._writer.written))
        try:
            present = read_states(self._address, self._topic)
        except TimeoutError as error:
            self.violations.append(f"not-served: {error}")
            return
        self.violations += lost_keys(self._topic, dict(self._writer.written), before, present)
        self.reads += 1


def read_states(bootstrap: str, topic: str) -> dict[int, KeyedRecord]:
    """Read a partition from its start to its end."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "log_level": 2,
    }
    consumer = confluent_kafka.Consumer(settings)
    records: dict[int, KeyedRecord] = {}
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                error, offset = message.error(), message.offset()
                if error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    return records
                if error is None and offset is not None:
                    key, value = message.key() or b"", message.value()
                    text = None if value is None else _text(value)
                    records[offset] = KeyedRecord(_text(key), text)
    finally:
        consumer.close()
    raise TimeoutError(f"{topic} must be readable to its end within {READ_SECONDS_MAX} s")


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode()


class StartWatcher(threading.Thread):
    """Notes the log start of the other topic, and which offsets are out of range."""

    def __init__(self, cluster: FaultCluster, topic: str, writer: KeyedWriter) -> None:
        super().__init__(daemon=True)
        self._cluster, self._topic, self._writer = cluster, topic, writer
        self._ends = threading.Event()
        self.starts: list[LogStart] = []

    def run(self) -> None:
        while not self._ends.wait(TURN_SECONDS):
            with suppress(ConnectionEnded, OSError, KeyError, ValueError):
                leader = self._cluster.leader(self._topic)
                with RawConnection(self._cluster.address(leader)) as connection:
                    self._watch(connection)

    def finish(self) -> None:
        self._ends.set()
        self.join()

    def _watch(self, connection: RawConnection) -> None:
        start = log_start(connection, self._topic)
        self._note(start, "the leader's log")
        last = max(list(self._writer.timestamps), default=0)
        for offset in (start, last):
            if fetch_page(connection, self._topic, 0, offset).error_code == OFFSET_OUT_OF_RANGE:
                self._note(offset + 1, "a fetch that was out of range")

    def _note(self, offset: int, where: str) -> None:
        self.starts.append(LogStart(time.time_ns() // 1_000_000, offset, where))


def log_start(connection: RawConnection, topic: str) -> int:
    """Ask once for the log start; raises ValueError if this broker does not lead."""
    asked = list_offsets.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=EARLIEST_TIMESTAMP
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(asked,)),),
    )
    entry = connection.exchange(request).topics[0].partitions[0]
    if entry.error_code:
        raise ValueError(f"ListOffsets of {topic} must succeed, got {entry.error_code}")
    return int(entry.offset)


def read_replica(directory: Path) -> list[Batch]:
    """Read a replica whose segments are deleted and replaced meanwhile."""
    for _ in range(REPLICA_READS_MAX):
        with suppress(FileNotFoundError):
            return read_batches(directory)
    raise TimeoutError(f"{directory} must be readable after {REPLICA_READS_MAX} attempts")


def clean_under_kills(scene: Scene) -> None:
    """Kill leader and follower of topics with small segments, short retention and eager compaction."""
    cluster, number = scene.cluster, scene.report.faults
    states, latest = f"{scene.topic}-states-{number}", f"{scene.topic}-latest-{number}"
    scene.clients.create_topic(states, SPREAD[:1], STATES)
    scene.clients.create_topic(latest, SPREAD[1:2], LATEST)
    cluster.wait_until_in_sync([states, latest])
    writer = KeyedWriter(cluster.bootstrap, states, latest, scene.rng.randrange(1 << 30))
    reader = StateReader(cluster.bootstrap, states, writer)
    watcher = StartWatcher(cluster, latest, writer)
    threads: Sequence[KeyedWriter | StateReader | StartWatcher] = (writer, reader, watcher)
    for thread in threads:
        thread.start()
    try:
        time.sleep(RETENTION_MS / 1000)
        for topic in (states, latest):
            scene.pause()
            victim = cluster.leader(topic)
            scene.note("kills during cleaning")
            cluster.kill(victim)
            cluster.wait_for_leader_other_than(victim, topic)
            scene.wait_for_progress()
            cluster.start(victim)
            cluster.wait_until_in_sync()
    finally:
        for thread in threads:
            thread.finish()
    _check(scene, writer, reader, watcher, states, latest)
    for topic in (states, latest):
        scene.clients.delete_topic(topic)


def _check(
    scene: Scene, writer: KeyedWriter, reader: StateReader, watcher: StartWatcher, states: str, latest: str
) -> None:
    cluster, report = scene.cluster, scene.report
    cluster.wait_until_in_sync()
    report.violations += [f"client-error: {error}" for error in writer.errors[:3]]
    report.violations += reader.violations
    report.acknowledged += len(writer.written) + len(writer.timestamps)
    present_count = max(_check_states(scene, writer, states, broker) for broker in BROKERS)
    report.check(present_count < len(writer.written), "no-fault: nothing was compacted")
    starts = list(watcher.starts)
    leader = cluster.leader(latest)
    end = read_high_watermark(cluster.address(leader), latest)
    logs = {broker: read_replica(cluster.replica_dir(broker, latest, 0)) for broker in BROKERS}
    for broker, batches in logs.items():
        now_ms = time.time_ns() // 1_000_000
        offset = batches[0].base_offset if batches else end
        starts.append(LogStart(now_ms, offset, f"the log of broker {broker}"))
    report.violations += early_deletions(writer.timestamps, starts, RETENTION_MS)
    report.violations += differing_tails(latest, logs, leader, end)
    report.check(any(start.offset > 0 for start in starts), "no-fault: nothing was deleted")
    report.outcomes["reads of all keys"] += reader.reads
    report.outcomes["observed log starts"] += len(watcher.starts)
    report.outcomes["records deleted"] += max(start.offset for start in starts)
    report.outcomes["records compacted away"] += len(writer.written) - present_count


def _check_states(scene: Scene, writer: KeyedWriter, topic: str, broker: int) -> int:
    """Check the keys of one replica; return how many records it has.

    A segment that is being replaced is missing for a moment: a violation must be there again later.
    """
    cluster = scene.cluster
    end = read_high_watermark(cluster.address(cluster.leader(topic)), topic)
    name, final = f"{topic} of broker {broker}", last_offsets(writer.written)
    for _ in range(REPLICA_READS_MAX):
        present = decode_records(read_replica(cluster.replica_dir(broker, topic, 0)), end)
        violations = list(lost_keys(name, writer.written, final, present))
        if not violations:
            break
        time.sleep(SETTLE_SECONDS)
    scene.report.violations += violations
    return len(present)


CLEANING = (clean_under_kills,)
