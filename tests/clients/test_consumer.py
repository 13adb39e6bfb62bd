"""The consumer in both worlds, against a real broker; records are written by librdkafka."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.clients.client_apis import Clients

import odradek
from odradek import ConcurrentUse, OffsetAndMetadata, TopicPartition, WakeupError

EARLIEST = {"auto_offset_reset": "earliest"}
BEGAN_MS = int(time.time() * 1000)
"""Records are as old as the tests: older ones might be gone before they are read."""


def create(bootstrap: str, topic: str, partitions: int = 1) -> list[TopicPartition]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(30)
    return [TopicPartition(topic, index) for index in range(partitions)]


def write(bootstrap: str, partition: TopicPartition, values: Sequence[bytes | None], **options: Any) -> None:
    given = {name.replace("_", "."): value for name, value in options.items()}
    # Without numbers librdkafka may reorder what it sends again, for instance to a topic made just now.
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **given})
    for index, value in enumerate(values):
        producer.produce(
            partition.topic,
            value,
            key=b"k%d" % index,
            partition=partition.partition,
            headers=[("h", b"%d" % index), ("none", None)],
            timestamp=BEGAN_MS + index,
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
def test_records_of_librdkafka_are_read_as_they_were_written(
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
    assert [record.timestamp for record in records] == [BEGAN_MS + index for index in range(4)]
    assert records[1].headers == (("h", b"1"), ("none", None))
    consumer.seek_to_beginning()
    rows = consumer.poll_arrow(10.0).to_pylist()
    assert [row["value"] for row in rows] == values
    assert rows[1]["headers"] == [{"key": "h", "value": b"1"}, {"key": "none", "value": None}]


def test_many_records_come_in_order_from_many_partitions(
    clients: Clients, bootstrap: str, topic: str
) -> None:
    partitions = create(bootstrap, topic, 4)
    for partition in partitions:
        write(bootstrap, partition, [b"%d" % index for index in range(5000)], linger_ms=5)
    consumer = clients.consumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=20_000, **EARLIEST)
    consumer.assign(partitions)
    records = read(consumer, 20_000)
    for partition in partitions:
        mine = [record for record in records if record.partition == partition.partition]
        assert [record.offset for record in mine] == list(range(5000))
        assert values_of(mine) == [b"%d" % index for index in range(5000)]
    assert consumer.metrics()["records-consumed-total"] == 20_000


def test_only_committed_records_are_read_if_that_is_wanted(
    clients: Clients, bootstrap: str, topic: str
) -> None:
    (partition,) = create(bootstrap, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for kept in (True, False, True):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, b"%s %d" % (b"kept" if kept else b"gone", index), partition=0)
        producer.flush(30)
        (producer.commit_transaction if kept else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    kept_values = [b"kept 0", b"kept 1", b"kept 2"] * 2
    consumer = clients.consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", **EARLIEST)
    consumer.assign([partition])
    assert values_of(read(consumer, 6)) == kept_values
    assert consumer.poll(0.5) == []
    assert consumer.position(partition) == 12
    consumer.seek_to_beginning()
    rows: list[Any] = []
    while len(rows) < 6:
        rows += consumer.poll_arrow(5.0).column("value").to_pylist()
    assert rows == kept_values
    everything = clients.consumer(bootstrap_servers=bootstrap, **EARLIEST)
    everything.assign([partition])
    assert len(read(everything, 10)) == 10
    producer.abort_transaction(30)


def test_a_group_goes_on_where_it_left_off(clients: Clients, bootstrap: str, topic: str) -> None:
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


class Noting:
    """A listener that notes where it runs, and commits."""

    def __init__(self, commit: Callable[[], Any] | None = None) -> None:
        self.heard: list[str] = []
        self.threads: set[str] = set()
        self._commit = commit

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"+{len(partitions)}")

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"-{len(partitions)}")
        if self._commit is not None:
            self._commit()

    def _note(self, what: str) -> None:
        self.heard.append(what)
        self.threads.add(threading.current_thread().name)


def test_members_share_partitions_and_listeners_hear_of_it(
    clients: Clients, bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic, 2)
    options = {"bootstrap_servers": bootstrap, "group_id": topic, "heartbeat_interval_ms": 300, **EARLIEST}
    first, second = clients.consumer(**options), clients.consumer(**options)
    noting = Noting()
    first.subscribe([topic], listener=noting)
    until = time.monotonic() + 40
    while len(first.assignment()) < 2 and time.monotonic() < until:
        first.poll(0.2)
    second.subscribe([topic])
    while (len(first.assignment()), len(second.assignment())) != (1, 1) and time.monotonic() < until:
        first.poll(0.2)
        second.poll(0.2)
    assert first.assignment() | second.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    first.close()
    assert [what for what in noting.heard if what[1:] != "0"] == ["+2", "-2", "+1", "-1"]
    where = threading.current_thread().name if clients.name == "blocking" else "asyncio-clients"
    assert noting.threads == {where}


def test_a_blocking_listener_uses_the_consumer_that_calls_it(bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"0", b"1"])
    options = {"bootstrap_servers": bootstrap, "group_id": topic, "enable_auto_commit": False, **EARLIEST}
    with odradek.Consumer(**options) as consumer:
        noting = Noting(lambda: consumer.commit())
        consumer.subscribe([topic], listener=noting)
        assert values_of(read(consumer, 2)) == [b"0", b"1"]
    with odradek.Consumer(**options) as consumer:
        assert consumer.committed(partition)[partition].offset == 2


def test_wakeup_from_another_thread_ends_a_poll(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([partition])
    consumer.position(partition)
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    began = time.monotonic()
    with pytest.raises(WakeupError):
        consumer.poll(60)
    assert time.monotonic() - began < 20
    timer.join()
    assert consumer.poll(0.05) == []


def test_use_from_two_threads_is_told(clients: Clients, bootstrap: str, topic: str) -> None:
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


def test_iteration_waits_for_what_comes(clients: Clients, bootstrap: str, topic: str) -> None:
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


def test_a_broker_that_restarts_in_mid_flight_costs_and_repeats_nothing(
    clients: Clients, start_broker: Any, topic: str
) -> None:
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


def test_offsets_are_found_by_time_and_at_both_ends(clients: Clients, bootstrap: str, topic: str) -> None:
    (partition,) = create(bootstrap, topic)
    write(bootstrap, partition, [b"0", b"1", b"2"])
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    found = consumer.offsets_for_times({partition: BEGAN_MS + 1})[partition]
    assert (found.offset, found.timestamp) == (1, BEGAN_MS + 1)
    assert [one.partition for one in consumer.partitions_for(topic)] == [0]
    assert topic in consumer.list_topics()
    consumer.assign([partition])
    consumer.seek(partition, 2)
    assert values_of(read(consumer, 1)) == [b"2"]
    assert consumer.current_lag(partition) == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_done_in_between_each_partition_goes_on_where_it_is(
    clients: Clients, bootstrap: str, topic: str, seed: int
) -> None:
    """Law: records of a partition begin at its position and follow each other; paused ones give none."""
    count, chance = 3000, random.Random(seed)
    partitions = create(bootstrap, topic, 3)
    for partition in partitions:
        write(bootstrap, partition, [b"%d" % index for index in range(count)], linger_ms=5)
    consumer = clients.consumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=9000, **EARLIEST)
    consumer.assign(partitions)
    at = dict.fromkeys(partitions, 0)
    for _ in range(200):
        some = chance.choice(partitions)
        match chance.randrange(12):
            case 0:
                at[some] = chance.randrange(count)
                consumer.seek(some, at[some])
            case 1:
                consumer.pause(some)
            case 2:
                consumer.resume(*partitions)
            case 3:
                rows = consumer.poll_arrow(0.05, chance.randrange(1, 900)).to_pylist()
                seen = [
                    (TopicPartition(topic, row["partition"]), row["offset"], row["value"]) for row in rows
                ]
                _follow(consumer, at, seen)
            case 4:
                assert consumer.position(some) == at[some]
            case _:
                records = consumer.poll(0.05, chance.randrange(1, 900))
                seen = [(TopicPartition(topic, one.partition), one.offset, one.value) for one in records]
                _follow(consumer, at, seen)
    assert {each: consumer.position(each) for each in partitions} == at


def _follow(
    consumer: Any, at: dict[TopicPartition, int], seen: Sequence[tuple[TopicPartition, int, bytes]]
) -> None:
    paused = consumer.paused()
    for partition, offset, value in seen:
        assert partition not in paused
        assert (offset, value) == (at[partition], b"%d" % offset)
        at[partition] += 1
