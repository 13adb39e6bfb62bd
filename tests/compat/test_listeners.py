"""Listeners changed by a client while the broker runs, on real sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.compat.clients.kafka_python import KafkaConsumer, KafkaProducer, TopicPartition
from tests.support.broker import Broker, free_port

MAP = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"


def set_listeners(bootstrap: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [node] = admin.list_topics(timeout=30).brokers
    entry = ConfigEntry("listeners", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(30)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def echo(bootstrap: str, topic: str, value: bytes) -> bytes:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, value).get(timeout=30)
    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        result: bytes = next(consumer).value
        return result


def test_added_listener_survives_a_restart_and_is_removed(
    start_broker: Callable[..., Broker], topic: str
) -> None:
    broker = start_broker({"listener.security.protocol.map": MAP})
    extra = free_port()
    plain = f"PLAINTEXT://127.0.0.1:{broker.port}"
    set_listeners(broker.bootstrap, f"{plain},EXTRA://127.0.0.1:{extra}")
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{extra}"})
    admin.create_topics([NewTopic(topic)])[topic].result(30)
    assert echo(f"127.0.0.1:{extra}", topic, b"through the new one") == b"through the new one"
    broker.stop()
    broker.start()
    reported = AdminClient({"bootstrap.servers": f"127.0.0.1:{extra}"}).list_topics(timeout=30).brokers
    assert [node.port for node in reported.values()] == [extra]
    set_listeners(f"127.0.0.1:{extra}", plain)
    assert not is_open(extra)
    reported = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).brokers
    assert [node.port for node in reported.values()] == [broker.port]


def test_port_in_use_is_rejected(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker({"listener.security.protocol.map": MAP})
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        plain = f"PLAINTEXT://127.0.0.1:{broker.port}"
        with pytest.raises(KafkaException, match="cannot listen on EXTRA"):
            set_listeners(broker.bootstrap, f"{plain},EXTRA://127.0.0.1:{taken}")
    set_listeners(broker.bootstrap, plain)
