"""Blocking and asyncio consumers against a real broker; records are written by librdkafka."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka
import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.clients.client_apis import Clients

import odradek
from odradek import ConcurrentUse, OffsetAndMetadata, TopicPartition, WakeupError

EARLIEST = {"auto_offset_reset": "earliest"}
START_MS = int(time.time() * 1000)
"""Timestamp of the first record: older records might be deleted by retention."""


def create(bootstrap: str, topic: str, partitions: int = 1) -> list[TopicPartition]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)
    return [TopicPartition(topic, index) for index in range(partitions)]


def write(bootstrap: str, partition: TopicPartition, values: Sequence[bytes | None], **options: Any) -> None:
    config = {name.replace("_", "."): value for name, value in options.items()}
    # Without idempotence librdkafka may reorder retries, for instance to a new topic.
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, **config}
    )
    for index, value in enumerate(values):
        producer.produce(
            partition.topic,
            value,
            key=b"k%d" % index,
            partition=partition.partition,
            headers=[("h", b"%d" % index), ("none", None)],
            timestamp=START_MS + index,
        )
    assert producer.flush(30) == 0


def read(consumer: Any, count: int, timeout_s: float = 30.0) -> list[odradek.ConsumerRecord]:
    records: list[odradek.ConsumerRecord] = []
    until = time.monotonic() + timeout_s
    while len(records) < count and time.monotonic() < until:
        records += consumer.poll(1.0)
    return records


def values_of(records: Sequence[odradek.ConsumerRecord]) -> list[Any]:
    return [record.value for record in records]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_librdkafka_are_read_unchanged(
    clients: Clients, bootstrap: str, topic: str, codec: str
) -> None:
    (partition,) = create(bootstrap, topic)
    values = [b"x" * 100, b"", None, "größe".encode()]
    write(bootstrap, partition, values, compression_type=codec)
    consumer = clients.consumer(bootstrap_servers=bootstrap, **EARLIEST)
    consumer.assign([partition])
    records = read(consumer, 4)
    assert values_of(records) == values
    assert [record.key for record in records] == [b"k0", b"k1", b"k2", b"k3"]
    assert [record.timestamp for record in records] == [START_MS + index for index in range(4)]
    assert records[1].headers == (("h", b"1"), ("none", None))
    consumer.seek_to_beginning()
    rows = consumer.poll_arrow(10.0).to_pylist()
    assert [row["value"] for row in rows] == values
    assert rows[1]["headers"] == [{"key": "h", "value": b"1"}, {"key": "none", "value": None}]


def test_integers_of_numpy_are_accepted(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"a", b"b"])
    consumer = clients.consumer(bootstrap_servers=bootstrap, group_id=topic, **EARLIEST)
    listed: Any = TopicPartition(topic, np.int64(0))  # type: ignore[arg-type]
    consumer.assign([listed])
    consumer.seek(listed, np.int64(1))
    assert values_of(read(consumer, 1)) == [b"b"]
    times = consumer.offsets_for_times({listed: np.int64(0)})
    assert [entry.offset for entry in times.values()] == [0]
    consumer.commit({listed: np.int64(2)})
    assert consumer.committed(partition)[partition].offset == 2


def test_many_partitions_are_read_in_order(clients: Clients, bootstrap: str, topic: str) -> None:
    partitions = create(bootstrap, topic, 4)
    for partition in partitions:
        write(bootstrap, partition, [b"%d" % index for index in range(5000)], linger_ms=5)
    consumer = clients.consumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=20_000, **EARLIEST)
    consumer.assign(partitions)
    records = read(consumer, 20_000)
    for partition in partitions:
        of_partition = [record for record in records if record.partition == partition.partition]
        assert [record.offset for record in of_partition] == list(range(5000))
        assert values_of(of_partition) == [b"%d" % index for index in range(5000)]
    assert consumer.metrics()["records-consumed-total"] == 20_000


def test_read_committed_skips_aborted_records(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for commits in (True, False, True):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, b"%s %d" % (b"committed" if commits else b"aborted", index), partition=0)
        producer.flush(30)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    committed_values = [b"committed 0", b"committed 1", b"committed 2"] * 2
    consumer = clients.consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", **EARLIEST)
    consumer.assign([partition])
    assert values_of(read(consumer, 6)) == committed_values
    assert consumer.poll(0.5) == []
    assert consumer.position(partition) == 12
    consumer.seek_to_beginning()
    rows: list[Any] = []
    while len(rows) < 6:
        rows += consumer.poll_arrow(5.0).column("value").to_pylist()
    assert rows == committed_values
    uncommitted = clients.consumer(bootstrap_servers=bootstrap, **EARLIEST)
    uncommitted.assign([partition])
    assert len(read(uncommitted, 10)) == 10
    producer.abort_transaction(30)


def test_group_resumes_at_committed_offset(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"0", b"1", b"2"])
    first = clients.consumer(bootstrap_servers=bootstrap, group_id=topic, max_poll_records=2, **EARLIEST)
    first.subscribe([topic])
    assert values_of(read(first, 2)) == [b"0", b"1"]
    first.close()
    second = clients.consumer(
        bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False, **EARLIEST
    )
    second.subscribe(pattern=topic)
    assert values_of(read(second, 1)) == [b"2"]
    assert second.committed(partition)[partition].offset == 2
    second.commit({partition: OffsetAndMetadata(3, "done")})
    assert second.committed(partition)[partition].metadata == "done"
    assert second.group_metadata().generation_id > 0
    second.unsubscribe()
    assert second.assignment() == frozenset()


class RecordingListener:
    """Records its calls and their threads, and commits on revocation."""

    def __init__(self, commit: Callable[[], Any] | None = None) -> None:
        self.calls: list[str] = []
        self.threads: set[str] = set()
        self._commit = commit

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._record(f"+{len(partitions)}")

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._record(f"-{len(partitions)}")
        if self._commit is not None:
            self._commit()

    def _record(self, call: str) -> None:
        self.calls.append(call)
        self.threads.add(threading.current_thread().name)


def test_rebalance_calls_listeners(clients: Clients, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 2)
    options = {"bootstrap_servers": bootstrap, "group_id": topic, "heartbeat_interval_ms": 300, **EARLIEST}
    first, second = clients.consumer(**options), clients.consumer(**options)
    listener = RecordingListener()
    first.subscribe([topic], listener=listener)
    until = time.monotonic() + 40
    while len(first.assignment()) < 2 and time.monotonic() < until:
        first.poll(0.2)
    second.subscribe([topic])
    while (len(first.assignment()), len(second.assignment())) != (1, 1) and time.monotonic() < until:
        first.poll(0.2)
        second.poll(0.2)
    assert first.assignment() | second.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    first.close()
    assert [call for call in listener.calls if call[1:] != "0"] == ["+2", "-2", "+1", "-1"]
    thread = threading.current_thread().name if clients.name == "blocking" else "asyncio-clients"
    assert listener.threads == {thread}


def test_blocking_listener_can_commit(bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"0", b"1"])
    options: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": topic, **EARLIEST}
    options["enable_auto_commit"] = False
    with odradek.Consumer(**options) as consumer:
        listener = RecordingListener(lambda: consumer.commit())
        consumer.subscribe([topic], listener=listener)
        assert values_of(read(consumer, 2)) == [b"0", b"1"]
    with odradek.Consumer(**options) as consumer:
        committed = consumer.committed(partition)[partition]
        assert committed is not None
        assert committed.offset == 2


def test_wakeup_from_other_thread_interrupts_poll(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([partition])
    consumer.position(partition)
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    started = time.monotonic()
    with pytest.raises(WakeupError):
        consumer.poll(60)
    assert time.monotonic() - started < 20
    timer.join()
    assert consumer.poll(0.05) == []


def test_concurrent_use_from_two_threads_fails(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([partition])
    woken: list[type[BaseException]] = []

    def poll() -> None:
        try:
            consumer.poll(60)
        except WakeupError as error:
            woken.append(type(error))

    other = threading.Thread(target=poll)
    other.start()
    time.sleep(0.5)
    with pytest.raises(ConcurrentUse, match="at once"):
        consumer.poll(1)
    consumer.wakeup()
    other.join(30)
    assert woken == [WakeupError]


def test_iteration_waits_for_records(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"0", b"1"])
    consumer = clients.consumer(bootstrap_servers=bootstrap, value_deserializer="str", **EARLIEST)
    consumer.assign([partition])
    seen = []
    for record in consumer:
        seen.append(record.value)
        if len(seen) == 2:
            write(bootstrap, partition, [b"2"])
        if len(seen) == 3:
            break
    assert seen == ["0", "1", "2"]


def test_consumer_survives_broker_restarts(clients: Clients, start_broker: Any, topic: str) -> None:
    broker = start_broker()
    (partition,) = create(broker.bootstrap, topic)
    consumer = clients.consumer(bootstrap_servers=broker.bootstrap, **EARLIEST)
    consumer.assign([partition])
    offsets: list[int] = []
    for _ in range(3):
        write(broker.bootstrap, partition, [bytes(1000)] * 500)
        offsets += [record.offset for record in read(consumer, 100)]
        broker.stop()
        broker.start()
    offsets += [record.offset for record in read(consumer, 1500 - len(offsets), 60)]
    assert offsets == list(range(1500))


def test_offset_lookups(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"0", b"1", b"2"])
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    offset = consumer.offsets_for_times({partition: START_MS + 1})[partition]
    assert (offset.offset, offset.timestamp) == (1, START_MS + 1)
    assert [info.partition for info in consumer.partitions_for(topic)] == [0]
    assert topic in consumer.list_topics()
    consumer.assign([partition])
    consumer.seek(partition, 2)
    assert values_of(read(consumer, 1)) == [b"2"]
    assert consumer.current_lag(partition) == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_random_operations_keep_positions(clients: Clients, bootstrap: str, topic: str, seed: int) -> None:
    """Records of a partition start at its position and are consecutive; paused partitions return none."""
    count, rng = 3000, random.Random(seed)
    partitions = create(bootstrap, topic, 3)
    for partition in partitions:
        write(bootstrap, partition, [b"%d" % index for index in range(count)], linger_ms=5)
    consumer = clients.consumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=9000, **EARLIEST)
    consumer.assign(partitions)
    positions = dict.fromkeys(partitions, 0)
    for _ in range(200):
        partition = rng.choice(partitions)
        match rng.randrange(12):
            case 0:
                positions[partition] = rng.randrange(count)
                consumer.seek(partition, positions[partition])
            case 1:
                consumer.pause(partition)
            case 2:
                consumer.resume(*partitions)
            case 3:
                rows = consumer.poll_arrow(0.05, rng.randrange(1, 900)).to_pylist()
                seen = [
                    (TopicPartition(topic, row["partition"]), row["offset"], row["value"]) for row in rows
                ]
                _check(consumer, positions, seen)
            case 4:
                assert consumer.position(partition) == positions[partition]
            case _:
                records = consumer.poll(0.05, rng.randrange(1, 900))
                seen = [
                    (TopicPartition(topic, record.partition), record.offset, record.value)
                    for record in records
                ]
                _check(consumer, positions, seen)
    assert {partition: consumer.position(partition) for partition in partitions} == positions


def _check(
    consumer: Any, positions: dict[TopicPartition, int], seen: Sequence[tuple[TopicPartition, int, bytes]]
) -> None:
    paused = consumer.paused()
    for partition, offset, value in seen:
        assert partition not in paused
        assert (offset, value) == (positions[partition], b"%d" % offset)
        positions[partition] += 1
