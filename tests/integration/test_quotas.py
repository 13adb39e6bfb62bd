"""Client quotas of a broker process, with the clients of others. Times are bounded on one side only."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism
from confluent_kafka.admin import UserScramCredentialUpsertion as Upsertion
from kafka import KafkaProducer
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import create_topic, metadata_request
from tests.support.raw_connection import RawConnection

from odradek import Admin, ClientQuotaEntity, QuotaName

RATE = 200_000
"""Bytes per second; a burst of ten times as much passes."""
RECORD = bytes(50_000)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin
        admin.alter_client_quotas(
            {entity: dict.fromkeys(quotas) for entity, quotas in admin.describe_client_quotas().items()}
        )


def set_quota(admin: Admin, entity: ClientQuotaEntity, **quotas: float | None) -> None:
    admin.alter_client_quotas({entity: quotas})
    time.sleep(0.5)  # until the broker is notified


def produce(bootstrap: str, topic: str, client_id: str, count: int) -> tuple[float, float]:
    """Produce records with kafka-python; return the seconds, and the largest throttle time in ms."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, client_id=client_id, acks=1, linger_ms=0, batch_size=0
    )
    try:
        started = time.monotonic()
        for _ in range(count):
            producer.send(topic, RECORD).get(60)
        elapsed = time.monotonic() - started
        return elapsed, producer.metrics()["producer-metrics"]["produce-throttle-time-max"]
    finally:
        producer.close()


def test_producer_is_limited_to_its_rate_and_others_are_not(bootstrap: str, topic: str, admin: Admin) -> None:
    admin.create_topics([topic])
    entity = ClientQuotaEntity(client_id="limited")
    set_quota(admin, entity, producer_byte_rate=RATE)
    # 4 MB: a burst of 2 MB, and 10 seconds for the rest.
    elapsed, throttle_ms = produce(bootstrap, topic, "limited", 80)
    assert elapsed > 5
    assert throttle_ms > 0
    assert produce(bootstrap, topic, "other", 80)[1] == 0
    set_quota(admin, entity, producer_byte_rate=None)
    assert produce(bootstrap, topic, "limited", 80)[1] == 0


def test_confluent_consumer_is_limited_to_its_rate(bootstrap: str, topic: str, admin: Admin) -> None:
    admin.create_topics([topic])
    produce(bootstrap, topic, "writer", 80)
    set_quota(admin, ClientQuotaEntity(user=QuotaName.DEFAULT), consumer_byte_rate=RATE)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": len(RECORD),
        }
    )
    consumer.subscribe([topic])
    started, count = time.monotonic(), 0
    while count < 80 and time.monotonic() - started < 60:
        record = consumer.poll(1)
        count += record is not None and record.error() is None
    elapsed = time.monotonic() - started
    consumer.close()
    assert count == 80, "a throttled consumer gets all records"
    assert elapsed > 5


def test_confluent_producer_reports_the_throttle_time(bootstrap: str, topic: str, admin: Admin) -> None:
    admin.create_topics([topic])
    set_quota(admin, ClientQuotaEntity(client_id="reporting"), producer_byte_rate=50_000)
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "reporting",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    for _ in range(20):
        producer.produce(topic, RECORD)
        producer.flush(30)
    assert max(throttled, default=0) > 0


def test_throttled_connection_is_not_read(bootstrap: str, topic: str, admin: Admin) -> None:
    with RawConnection(bootstrap) as connection, RawConnection(bootstrap) as other:
        create_topic(connection, topic)
        set_quota(admin, ClientQuotaEntity(user="ANONYMOUS"), request_percentage=0.001)
        connection.exchange(metadata_request(topic))
        started = time.monotonic()
        connection.exchange(metadata_request(topic))
        connection.exchange(metadata_request(topic))
        assert time.monotonic() - started > 0.5
        set_quota(admin, ClientQuotaEntity(user="ANONYMOUS"), request_percentage=None)
        other.exchange(metadata_request(topic))


def test_connections_are_accepted_at_the_configured_rate(start_broker: StartBroker) -> None:
    broker = start_broker({"max.connection.creation.rate": "10", "quota.window.num": "2"})
    started = time.monotonic()
    for _ in range(40):
        with RawConnection(broker.bootstrap) as connection:
            connection.exchange(metadata_request())
    assert time.monotonic() - started > 1.5


def test_confluent_admin_sets_scram_credentials(bootstrap: str, topic: str) -> None:
    user = f"user-{topic}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    [future] = admin.alter_user_scram_credentials([Upsertion(user, info, b"secret")]).values()
    assert future.result(30) is None
    futures = admin.describe_user_scram_credentials([user])
    assert isinstance(futures, dict)
    described = futures[user].result(30)
    infos = [(each.mechanism, each.iterations) for each in described.scram_credential_infos]
    assert infos == [(ScramMechanism.SCRAM_SHA_512, 4096)]
    with Admin(bootstrap_servers=bootstrap) as own:
        assert user in own.describe_user_scram_credentials()
