"""Idempotent producer during broker restarts: no record is lost or duplicated."""

from __future__ import annotations

import confluent_kafka as kafka
import pytest
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.interface import read_all
from tests.support.broker import Broker, free_port
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led
from tests.support.proxy import Moment, Point, Proxy

ENDS = {"SIGTERM": Broker.stop, "kill -9": Broker.kill}
ROUNDS = 3
RECORDS_A_ROUND = 3000
PRODUCE = 0


@pytest.mark.parametrize("end", sorted(ENDS))
def test_no_record_is_lost_or_duplicated_by_broker_crashes(
    start_broker: StartBroker, topic: str, end: str
) -> None:
    port = free_port()
    advertised = f"PLAINTEXT://127.0.0.1:{port}"
    broker = start_broker({"log.segment.bytes": "100000", "advertised.listeners": advertised})
    proxy = Proxy(port, broker.port, (), 0)
    proxy.start()
    client = Confluent(broker.bootstrap)
    try:
        client.create_topic(topic)
        write(broker, proxy, topic, end)
        wait_until_led(broker.bootstrap, topic)
        count = ROUNDS * RECORDS_A_ROUND
        assert client.offsets(topic, 0) == (0, count)
        assert [item.value for item in read_all(client, topic, count)] == [
            b"%d" % number for number in range(count)
        ]
    finally:
        client.close()
        proxy.stop()


def write(broker: Broker, proxy: Proxy, topic: str, end: str) -> None:
    """Write all records; in each round the broker stops after an append without a response."""
    producer = kafka.Producer(
        {
            "bootstrap.servers": proxy.bootstrap,
            "client.id": "writer",
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            # Of the batches without a response before a clean stop, the last one is known after it.
            "max.in.flight": 1 if end == "SIGTERM" else 5,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 50,
        }
    )
    failed: list[kafka.KafkaError] = []

    def on_delivery(error: kafka.KafkaError | None, _: kafka.Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(ROUNDS * RECORDS_A_ROUND):
        is_middle = number % RECORDS_A_ROUND == RECORDS_A_ROUND // 2
        if is_middle:
            unanswered = proxy.arm(Point("writer", PRODUCE, Moment.UNANSWERED), lambda: ENDS[end](broker))
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
        producer.poll(0)
        if is_middle:
            assert unanswered.wait(30), "no batch was sent"
            broker.start()
    assert producer.flush(30) == 0
    assert failed == []
