"""An idempotent producer under way while its broker ends and comes back: no record is lost or doubled."""

from __future__ import annotations

import confluent_kafka as kafka
import pytest
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.shape import read_all
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker
from tests.support.requests import wait_until_led

ENDS = {"SIGTERM": Broker.stop, "kill -9": Broker.kill}
ROUNDS = 3
RECORDS_A_ROUND = 3000


@pytest.mark.parametrize("end", sorted(ENDS))
def test_no_record_is_lost_or_doubled_by_ends_of_the_broker(
    start_broker: StartBroker, topic: str, end: str
) -> None:
    broker = start_broker({"log.segment.bytes": "100000"})
    client = Confluent(broker.bootstrap)
    client.create_topic(topic)
    producer = kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 50,
        }
    )
    failed: list[kafka.KafkaError] = []

    def told(error: kafka.KafkaError | None, _: kafka.Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(ROUNDS * RECORDS_A_ROUND):
        producer.produce(topic, b"%d" % number, on_delivery=told)
        producer.poll(0)
        if number % RECORDS_A_ROUND == RECORDS_A_ROUND // 2:
            ENDS[end](broker)
            broker.start()
    assert producer.flush(30) == 0
    assert failed == []
    wait_until_led(broker.bootstrap, topic)
    count = ROUNDS * RECORDS_A_ROUND
    try:
        assert client.offsets(topic, 0) == (0, count)
        assert [one.value for one in read_all(client, topic, count)] == [b"%d" % one for one in range(count)]
    finally:
        client.close()
