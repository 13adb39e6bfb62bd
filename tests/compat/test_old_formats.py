"""Clients of Kafka 0.8 to 0.10: messages of magic 0 and 1, up-converted and down-converted."""

from __future__ import annotations

import pytest
from tests.compat.clients.interface import Message, read_all
from tests.compat.clients.kafka_python_2 import KafkaPython2, OldRecord, Release
from tests.compat.conftest import Clients
from tests.support.kio_requests import stored_batches
from tests.support.record_batches import batch_magics

RELEASES: tuple[Release, ...] = ((0, 8, 2), (0, 9), (0, 10, 0), None)
OLD_CODECS = (None, "gzip", "snappy", "lz4")
TIME = 1_600_000_000_000


def name_of(release: Release) -> str:
    return "newest" if release is None else ".".join(map(str, release))


def messages_of(count: int, timestamp_ms: int | None) -> list[Message]:
    return [
        Message(f"value {number} ".encode() * 10, key=f"k{number}".encode(), timestamp_ms=timestamp_ms)
        for number in range(count)
    ]


@pytest.fixture(params=RELEASES, ids=name_of)
def release(request: pytest.FixtureRequest) -> Release:
    value: Release = request.param
    return value


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_old_producer_messages_are_read_by_old_and_new_consumers(
    clients: Clients, bootstrap: str, topic: str, release: Release, codec: str | None
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    old = KafkaPython2(bootstrap, release)
    has_timestamps = release is None or release >= (0, 10)
    messages = messages_of(20, TIME if has_timestamps else None)
    assert old.produce(topic, messages, compression=codec) == list(range(20))

    expected_time = TIME if has_timestamps else -1
    received = read_all(clients["confluent-kafka"], topic, 20)
    assert [(item.offset, item.key, item.value, item.timestamp_ms) for item in received] == [
        (offset, message.key, message.value, expected_time) for offset, message in enumerate(messages)
    ]
    assert old.consume(topic, 20) == [
        OldRecord(offset, message.key, message.value, TIME if has_timestamps else None)
        for offset, message in enumerate(messages)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_new_producer_records_are_read_by_old_consumers(
    clients: Clients, bootstrap: str, topic: str, release: Release, codec: str
) -> None:
    client = clients["confluent-kafka"]
    client.create_topic(topic)
    messages = [
        Message(message.value, message.key, headers=[("h", b"1")], timestamp_ms=TIME)
        for message in messages_of(20, None)
    ]
    client.produce(topic, messages, compression=codec)
    has_timestamps = release is None or release >= (0, 10)
    received = KafkaPython2(bootstrap, release).consume(topic, 15, start=5)
    assert received == [
        OldRecord(offset, message.key, message.value, TIME if has_timestamps else None)
        for offset, message in enumerate(messages)
        if offset >= 5
    ]


def test_records_are_stored_in_the_newest_format(
    clients: Clients, bootstrap: str, topic: str, release: Release
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    KafkaPython2(bootstrap, release).produce(topic, messages_of(3, None), compression="gzip")
    assert set(batch_magics(stored_batches(bootstrap, topic))) == {2}


def test_null_keys_and_values_of_an_old_producer_stay_null(
    clients: Clients, bootstrap: str, topic: str, release: Release
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    old = KafkaPython2(bootstrap, release)
    old.produce(topic, [Message(None, b"k"), Message(b"v", None)])
    assert [(item.key, item.value) for item in old.consume(topic, 2)] == [(b"k", None), (None, b"v")]


def test_offsets_are_listed_for_old_consumers(
    clients: Clients, bootstrap: str, topic: str, release: Release
) -> None:
    client = clients["confluent-kafka"]
    client.create_topic(topic)
    client.produce(topic, [Message(b"v")] * 7)
    client.delete_records(topic, 0, 2)
    assert KafkaPython2(bootstrap, release).offsets(topic) == (2, 7)


@pytest.mark.parametrize("acks", [1, -1])
def test_old_producers_support_every_acks_value(
    clients: Clients, bootstrap: str, topic: str, release: Release, acks: int
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    KafkaPython2(bootstrap, release).produce(topic, messages_of(5, None), acks=acks)
    assert len(read_all(clients["confluent-kafka"], topic, 5)) == 5


def test_zstd_is_read_by_a_consumer_that_supports_it(clients: Clients, bootstrap: str, topic: str) -> None:
    clients["confluent-kafka"].create_topic(topic)
    newest = KafkaPython2(bootstrap)
    newest.produce(topic, messages_of(5, TIME), compression="zstd")
    assert [item.value for item in newest.consume(topic, 5)] == [item.value for item in messages_of(5, None)]


def test_old_admin_client_creates_a_topic(bootstrap: str, topic: str) -> None:
    assert topic in KafkaPython2(bootstrap).create_topic(topic)
