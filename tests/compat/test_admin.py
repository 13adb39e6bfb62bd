"""Topics and configs, managed with each client's admin API."""

from __future__ import annotations

import time

import pytest
from tests.compat.clients.interface import Client, ErrorResponse, Message, read_all

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40


def test_topic_is_created_listed_described_and_deleted(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=3)
    assert topic in client.list_topics()
    assert client.partitions_of(topic) == [0, 1, 2]
    client.delete_topic(topic)
    assert topic not in client.list_topics()


def test_creating_an_existing_topic_fails(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with pytest.raises(ErrorResponse) as error:
        client.create_topic(topic)
    assert error.value.code == TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["with space", "slash/es", "k" * 250, ".."])
def test_invalid_topic_name_is_rejected(client: Client, name: str) -> None:
    with pytest.raises(ErrorResponse) as error:
        client.create_topic(name)
    assert error.value.code == INVALID_TOPIC


def test_topic_without_partitions_is_rejected(client: Client, topic: str) -> None:
    with pytest.raises(ErrorResponse) as error:
        client.create_topic(topic, partitions=0)
    assert error.value.code == INVALID_PARTITIONS


def test_deleting_an_unknown_topic_fails(client: Client, topic: str) -> None:
    with pytest.raises(ErrorResponse) as error:
        client.delete_topic(topic)
    assert error.value.code == UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_can_be_added_but_not_removed(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=1)
    client.create_partitions(topic, 4)
    assert client.partitions_of(topic) == [0, 1, 2, 3]
    with pytest.raises(ErrorResponse) as error:
        client.create_partitions(topic, 2)
    assert error.value.code == INVALID_PARTITIONS
    assert client.produce(topic, [Message(b"in the new one", partition=3)]) == [0]
    assert [item.value for item in read_all(client, topic, 1, partitions=[3])] == [b"in the new one"]


def test_topic_configs_set_at_creation_are_described(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "123456", "cleanup.policy": "compact"})
    configs = client.describe_configs(topic)
    assert configs["retention.ms"] == "123456"
    assert configs["cleanup.policy"] == "compact"


def test_topic_default_configs_are_described(client: Client, topic: str, min_in_sync: str) -> None:
    client.create_topic(topic)
    configs = client.describe_configs(topic)
    expected = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": min_in_sync,
        "retention.bytes": "-1",
        "segment.ms": "604800000",
        "segment.bytes": "1073741824",
        "unclean.leader.election.enable": "false",
    }
    assert {name: configs.get(name) for name in expected} == expected
    assert len(configs) >= 30


def test_altered_topic_config_is_described(client: Client, topic: str) -> None:
    client.create_topic(topic)
    client.alter_configs(topic, {"max.message.bytes": "54321"})
    assert client.describe_configs(topic)["max.message.bytes"] == "54321"


@pytest.mark.parametrize(
    ("name", "value"), [("retention.ms", "soon"), ("cleanup.policy", "shred"), ("no.such.setting", "1")]
)
def test_invalid_topic_config_is_rejected_and_changes_nothing(
    client: Client, topic: str, name: str, value: str
) -> None:
    client.create_topic(topic)
    before = client.describe_configs(topic)
    with pytest.raises(ErrorResponse) as error:
        client.alter_configs(topic, {name: value})
    assert error.value.code == INVALID_CONFIG
    assert client.describe_configs(topic) == before


def test_invalid_config_at_creation_is_rejected(client: Client, topic: str) -> None:
    with pytest.raises(ErrorResponse) as error:
        client.create_topic(topic, configs={"segment.bytes": "-7"})
    assert error.value.code == INVALID_CONFIG
    assert topic not in client.list_topics()


def test_broker_configs_are_described(client: Client) -> None:
    configs = client.describe_broker_configs()
    assert configs["delete.topic.enable"] == "true"
    assert configs["inter.broker.protocol.version"] == "3.9-IV0"
    assert configs["message.max.bytes"] == "1048588"
    assert len(configs) >= 200


def test_recreated_topic_starts_empty(client: Client, topic: str) -> None:
    client.create_topic(topic)
    client.produce(topic, [Message(b"old")])
    client.delete_topic(topic)
    create_when_name_is_free(client, topic)
    assert client.offsets(topic) == (0, 0)
    client.produce(topic, [Message(b"new")])
    assert [item.value for item in read_all(client, topic, 1)] == [b"new"]


def create_when_name_is_free(client: Client, topic: str) -> None:
    """Create a topic just after its deletion, with retries while the deletion is in progress."""
    deadline = time.monotonic() + 20
    while True:
        try:
            client.create_topic(topic)
            return
        except ErrorResponse as error:
            if error.code != TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
