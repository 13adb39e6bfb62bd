"""Blocking and asyncio producers against a real broker."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from tests.clients.client_apis import BlockingClients, Clients
from tests.support.broker import Broker, free_port
from tests.support.proxy import Moment, Point, Proxy

import odradek
from odradek import ClientClosed, ConfigError, InvalidState, RecordTooLarge, TimedOut, TopicPartition

PRODUCE = 0


def read(clients: Clients, bootstrap: str, topic: str, count: int) -> list[Any]:
    """Return the first records of a topic, ordered by partition and offset."""
    consumer = clients.consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    records: list[Any] = []
    deadline = time.monotonic() + 30
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(1.0)
    consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def test_sent_records_are_read(clients: Clients, bootstrap: str, topic: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap)
    sent = [b"%d" % number for number in range(200)]
    deliveries = [producer.send(topic, value, key=b"k", headers=[("h", value)]) for value in sent]
    offsets = [delivery.result(30).offset for delivery in deliveries]
    assert offsets == list(range(offsets[0], offsets[0] + 200))
    records = read(clients, bootstrap, topic, 200)
    assert [record.value for record in records] == sent
    assert all(record.key == b"k" for record in records)
    assert records[7].headers == (("h", b"7"),)


def test_flush_delivers_all_with_ordered_callbacks(clients: Clients, bootstrap: str, topic: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, linger_ms=1000)
    offsets: list[int] = []
    for _ in range(1000):
        producer.send(
            topic, b"v", b"key", on_delivery=lambda metadata, error: offsets.append(metadata.offset)
        )
    producer.flush()
    assert len(offsets) == 1000
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression_codecs(clients: Clients, bootstrap: str, topic: str, codec: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5)
    sent = [b"%d-" % number * 30 for number in range(500)]
    assert producer.send_many(topic, sent, partition=0).result() == 500
    assert [record.value for record in read(clients, bootstrap, topic, 500)] == sent


def test_send_with_small_buffer_memory(clients: Clients, bootstrap: str, topic: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, batch_size=1000, buffer_memory=8000)
    count = 2000
    for number in range(count):
        producer.send(topic, b"%6d" % number * 20, partition=0)
    producer.flush()
    assert producer.metrics()["buffer-available-bytes"] == 8000
    values = [record.value[:6] for record in read(clients, bootstrap, topic, count)]
    assert values == [b"%6d" % number for number in range(count)]


def test_send_arrow(clients: Clients, bootstrap: str, topic: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    count = 5000
    table = pyarrow.table(
        {
            "value": [None if number % 10 == 3 else b"%d" % number for number in range(count)],
            "key": pyarrow.array([f"k{number % 5}" for number in range(count)]),
            "partition": pyarrow.array([0] * count, pyarrow.int32()),
            "timestamp": pyarrow.array(range(1, count + 1), pyarrow.timestamp("ms")),
            "headers": pyarrow.array(
                [[("n", b"%d" % number)] for number in range(count)], pyarrow.list_(header)
            ),
        }
    )
    producer = clients.producer(bootstrap_servers=bootstrap)
    assert producer.send_arrow(table, topic).result() == count
    records = read(clients, bootstrap, topic, count)
    assert [record.value for record in records] == table["value"].to_pylist()
    assert [record.timestamp for record in records] == list(range(1, count + 1))
    assert [record.headers for record in records] == [(("n", b"%d" % number),) for number in range(count)]
    assert {record.key for record in records} == {b"k0", b"k1", b"k2", b"k3", b"k4"}


def test_send_arrow_with_topic_column(clients: Clients, bootstrap: str, topic: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    other = f"{topic}-other"
    names = pyarrow.array([topic, other] * 50).dictionary_encode()
    table = pyarrow.table({"topic": names, "value": [b"%d" % number for number in range(100)]})
    producer = clients.producer(bootstrap_servers=bootstrap)
    assert producer.send_arrow(table).result() == 100
    values = sorted(int(record.value) for record in read(clients, bootstrap, other, 50))
    assert values == list(range(1, 100, 2))


def test_invalid_arrow_table_is_rejected(clients: Clients, bootstrap: str, topic: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    producer = clients.producer(bootstrap_servers=bootstrap)
    with pytest.raises(odradek.SerializationFailed, match="colour"):
        producer.send_arrow(pyarrow.table({"value": [b"v"], "colour": ["red"]}), topic)
    with pytest.raises(odradek.SerializationFailed, match="topic"):
        producer.send_arrow(pyarrow.table({"value": [b"v"]}))


def test_broker_restart_delivers_records_once(clients: Clients, start_broker: Any) -> None:
    port = free_port()
    broker: Broker = start_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    proxy = Proxy(port, broker.port, (), 0)
    proxy.start()
    try:
        producer = clients.producer(
            bootstrap_servers=proxy.bootstrap,
            client_id="writer",
            batch_size=200,
            max_in_flight_requests_per_connection=1,
        )
        deliveries = [producer.send("letters", b"%d" % number, partition=0) for number in range(100)]
        deliveries[-1].result(30)
        unanswered = proxy.arm(Point("writer", PRODUCE, Moment.UNANSWERED), broker.stop)
        deliveries += [producer.send("letters", b"%d" % number, partition=0) for number in range(100, 200)]
        assert unanswered.wait(30), "no batch was sent"
        broker.start()
        assert [delivery.result(60).offset for delivery in deliveries] == list(range(200))
        values = [record.value for record in read(clients, proxy.bootstrap, "letters", 200)]
        assert values == [b"%d" % number for number in range(200)]
    finally:
        proxy.stop()


def test_unreachable_broker_fails_within_max_block_ms(clients: Clients) -> None:
    producer = clients.producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300)
    with pytest.raises(odradek.ClientError) as error:
        producer.send("letters", b"v")
    assert error.value.retriable


def test_send_after_close_fails(clients: Clients, bootstrap: str, topic: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, linger_ms=5000)
    delivery = producer.send(topic, b"v")
    producer.close()
    assert delivery.result(1).offset >= 0
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send(topic, b"late")


def test_invalid_records_and_options_are_rejected(clients: Clients, bootstrap: str, topic: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap)
    with pytest.raises(RecordTooLarge):
        producer.send(topic, bytes(2_000_000))
    with pytest.raises(ConfigError, match="linger"):
        clients.producer(bootstrap_servers=bootstrap, lingers_ms=5)


def test_transactions_are_atomic(clients: Clients, bootstrap: str, topic: str) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=f"t-{topic}")
    producer.init_transactions()
    with pytest.raises(InvalidState):
        producer.send(topic, b"outside")
    producer.begin_transaction()
    producer.send(topic, b"aborted", partition=0).result(30)
    producer.abort_transaction()
    producer.begin_transaction()
    deliveries = [producer.send(topic, b"%d" % number, partition=0) for number in range(10)]
    producer.commit_transaction()
    assert all(delivery.done() for delivery in deliveries)
    consumer = clients.consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    consumer.assign([TopicPartition(topic, 0)])
    records: list[Any] = []
    deadline = time.monotonic() + 30
    while len(records) < 10 and time.monotonic() < deadline:
        records += consumer.poll(1.0)
    assert [record.value for record in records] == [b"%d" % number for number in range(10)]


# Blocking producer only.


def test_threads_share_producer(bootstrap: str, topic: str) -> None:
    with odradek.Producer(bootstrap_servers=bootstrap, batch_size=2000) as producer:

        def work(name: int) -> None:
            for number in range(2000):
                producer.send(topic, b"%d:%d" % (name, number), partition=0)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
    records = read(BlockingClients(), bootstrap, topic, 8000)
    assert len(records) == 8000
    for name in range(4):
        numbers = [
            int(record.value.split(b":")[1]) for record in records if record.value.startswith(b"%d:" % name)
        ]
        assert numbers == list(range(2000)), "each thread's records stay in order"


def test_callback_can_close_producer(bootstrap: str, topic: str) -> None:
    producer = odradek.Producer(bootstrap_servers=bootstrap)
    closed = threading.Event()

    def close(metadata: object, error: object) -> None:
        producer.close()
        closed.set()

    producer.send(topic, b"v", on_delivery=close)
    assert closed.wait(30)
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send(topic, b"late")


def test_callback_can_send_but_not_wait(bootstrap: str, topic: str) -> None:
    errors: list[BaseException | None] = []
    with odradek.Producer(bootstrap_servers=bootstrap) as producer:

        def wait(metadata: object, _error: object) -> None:
            try:
                producer.send(topic, b"from a callback").result(1)
            except InvalidState as error:
                errors.append(error)

        producer.send(topic, b"v", on_delivery=wait).result(30)
        producer.flush()
    assert len(errors) == 1


def test_delivery_result_times_out(bootstrap: str, topic: str) -> None:
    with odradek.Producer(bootstrap_servers=bootstrap, linger_ms=2000) as producer:
        delivery = producer.send(topic, b"v")
        with pytest.raises(TimedOut):
            delivery.result(0.05)
        assert delivery.result(30).offset >= 0


def test_producer_fails_in_forked_process(bootstrap: str, topic: str) -> None:
    program = f"""
import os, sys
from odradek import ClientClosed, Producer
producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=1000)
producer.send({topic!r}, b"before")
child = os.fork()
if child == 0:
    try:
        producer.send({topic!r}, b"in the child")
    except ClientClosed as refused:
        producer.close()
        os._exit(7 if "forked" in str(refused) else 1)
    os._exit(2)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
producer.close()
sys.exit(code)
"""
    completed = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert completed.returncode == 7
    assert [record.value for record in read(BlockingClients(), bootstrap, topic, 1)] == [b"before"]
