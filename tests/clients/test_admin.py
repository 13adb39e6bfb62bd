"""Blocking and asyncio admin clients against a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.clients.client_apis import Clients
from tests.support.fixtures import StartBroker

from odradek import (
    ALL_RECORDS,
    ConfigResource,
    ConnectionFailed,
    ErrorCode,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    PartialFailure,
    Replica,
    TimedOut,
    TopicPartition,
)


@pytest.fixture
def admin(clients: Clients, bootstrap: str) -> Any:
    return clients.admin(bootstrap_servers=bootstrap)


def produce(clients: Clients, bootstrap: str, topic: str, count: int) -> None:
    producer = clients.producer(bootstrap_servers=bootstrap)
    for number in range(count):
        producer.send(topic, f"{number}".encode(), partition=0)
    producer.flush()


def eventually(call: Callable[[], Any], condition: Callable[[Any], bool]) -> Any:
    """Repeat a call until its result meets a condition, and return the last result."""
    deadline = time.monotonic() + 10
    while not condition(result := call()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return result


def test_topics(admin: Any, topic: str) -> None:
    created = admin.create_topics([NewTopic(topic, partitions=2, configs={"retention.ms": 86_400_000})])
    assert created[topic].partitions == 2
    assert topic in admin.list_topics()
    admin.create_partitions({topic: 3})
    # A broker of a KRaft cluster applies changes of its controller later.
    described = eventually(
        lambda: admin.describe_topics([topic])[topic], lambda description: len(description.partitions) == 3
    )
    assert [info.partition for info in described.partitions] == [0, 1, 2]
    assert described.topic_id == created[topic].topic_id
    with pytest.raises(PartialFailure) as raised:
        admin.create_topics([topic])
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])
    assert topic not in eventually(admin.list_topics, lambda topics: topic not in topics)


def test_configs(admin: Any, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    admin.create_topics([topic])
    admin.alter_configs({resource: {"cleanup.policy": ["compact", "delete"], "segment.bytes": 2_000_000}})
    entries = admin.describe_configs([resource])[resource]
    assert entries["cleanup.policy"].value == "compact,delete"
    admin.alter_configs({resource: {"cleanup.policy": None}})
    assert admin.describe_configs([resource])[resource]["cleanup.policy"].is_default
    broker = ConfigResource.broker(admin.describe_cluster().nodes[0].id)
    assert "log.dirs" in admin.describe_configs([broker])[broker]


def test_group_offsets(admin: Any, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.create_topics([NewTopic(topic, 2)])
    group = f"group-of-{topic}"
    admin.alter_group_offsets(group, {first: 5, second: OffsetAndMetadata(6, "metadata")})
    offsets = admin.list_group_offsets(group)
    assert (offsets[first].offset, offsets[second].metadata) == (5, "metadata")
    assert group in admin.list_groups()
    assert admin.describe_groups([group])[group].state == "Empty"
    admin.delete_group_offsets(group, [first])
    assert set(admin.list_group_offsets(group)) == {second}
    admin.delete_groups([group])
    assert group not in admin.list_groups()


def test_describe_and_remove_group_members(clients: Clients, admin: Any, bootstrap: str, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1)])
    group = f"group-of-{topic}"
    consumer = clients.consumer(bootstrap_servers=bootstrap, group_id=group, client_id="castle")
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    (member,) = admin.describe_groups([group])[group].members
    assert (member.client_id, member.partitions) == ("castle", (TopicPartition(topic, 0),))
    admin.remove_group_members(group)
    assert admin.describe_groups([group])[group].members == ()


def test_list_offsets_and_delete_records(clients: Clients, admin: Any, bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    admin.create_topics([NewTopic(topic, 1)])
    produce(clients, bootstrap, topic, 5)
    assert admin.list_offsets({partition: OffsetSpec.LATEST})[partition].offset == 5
    assert admin.list_offsets({partition: 0})[partition].offset == 0
    assert admin.delete_records({partition: 3}) == {partition: 3}
    assert admin.list_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 3
    assert admin.delete_records({partition: ALL_RECORDS}) == {partition: 5}
    (producer,) = admin.describe_producers([partition])[partition]
    assert producer.last_sequence == 4


def test_log_dirs(admin: Any, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1)])
    ((broker, directories),) = admin.describe_log_dirs(partitions=[TopicPartition(topic, 0)]).items()
    (path,) = (
        path for path, directory in directories.items() if TopicPartition(topic, 0) in directory.replicas
    )
    admin.alter_replica_log_dirs({Replica(topic, 0, broker): path})


def test_transactions(clients: Clients, admin: Any, bootstrap: str, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1)])
    name = f"id-of-{topic}"
    producer = clients.producer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"open").result()
    assert admin.list_transactions(states=["Ongoing"])[name].state == "Ongoing"
    described = admin.describe_transactions([name])[name]
    assert described.partitions == {TopicPartition(topic, 0)}
    fenced = admin.fence_producers([name])[name]
    assert (fenced.producer_id, fenced.producer_epoch > described.producer_epoch) == (
        described.producer_id,
        True,
    )


def test_describe_cluster(admin: Any) -> None:
    assert admin.describe_cluster().nodes
    assert admin.api_versions()["Produce"].highest >= 7
    assert admin.describe_features().finalized_epoch >= -1
    assert admin.metrics()


def test_unreachable_broker_fails_within_timeout(clients: Clients) -> None:
    admin = clients.admin(bootstrap_servers="127.0.0.1:1")
    with pytest.raises((ConnectionFailed, TimedOut), match=r"127\.0\.0\.1:1"):
        admin.list_topics(timeout_s=1)


def test_calls_succeed_after_broker_restart(clients: Clients, start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    admin = clients.admin(bootstrap_servers=broker.bootstrap)
    admin.create_topics([topic])
    broker.stop()
    broker.start()
    assert topic in admin.list_topics()
