"""Effects of topic configs on produced records, and auto-created topics."""

from __future__ import annotations

import time

import pytest
from tests.compat.clients.interface import Client, ErrorResponse, Message, read_all
from tests.support.kio_requests import stored_batches
from tests.support.record_batches import batch_headers

UNKNOWN = -1
INVALID_RECORD = 87
INVALID_TIMESTAMP = 32
CODEC_BITS = 0b111
TIMESTAMP_TYPE_BIT = 0b1000
CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def stored_attributes(bootstrap: str, topic: str) -> list[int]:
    return [attributes for _, attributes, _, _ in batch_headers(stored_batches(bootstrap, topic))]


def test_log_append_time_topic_uses_the_broker_time(client: Client, bootstrap: str, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = time.time_ns() // 1_000_000
    client.produce(topic, [Message(b"v", timestamp_ms=1_000_000)] * 3, compression="gzip")
    after = time.time_ns() // 1_000_000
    for item in read_all(client, topic, 3):
        assert before - 1000 <= item.timestamp_ms <= after + 1000
    assert all(attributes & TIMESTAMP_TYPE_BIT for attributes in stored_attributes(bootstrap, topic))


def test_compacted_topic_rejects_a_record_without_key(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"cleanup.policy": "compact"})
    with pytest.raises(ErrorResponse) as error:
        client.produce(topic, [Message(b"no key")])
    # aiokafka does not know this code and reports an unknown error.
    assert error.value.code == (UNKNOWN if client.name == "aiokafka" else INVALID_RECORD)
    assert client.produce(topic, [Message(b"v", key=b"k")]) == [0]


@pytest.mark.parametrize("stored", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_topic_compression_type_recompresses_records(
    client: Client, bootstrap: str, topic: str, stored: str
) -> None:
    client.create_topic(topic, configs={"compression.type": stored})
    messages = [Message(b"the same again and again " * 20, key=str(number).encode()) for number in range(20)]
    for sent in ("none", "gzip", "zstd"):
        client.produce(topic, messages, compression=sent)
    assert [(item.key, item.value) for item in read_all(client, topic, 60)] == [
        (message.key, message.value) for message in messages * 3
    ]
    codec = CODEC_IDS.get(stored, 0)
    assert {attributes & CODEC_BITS for attributes in stored_attributes(bootstrap, topic)} == {codec}


@pytest.mark.parametrize("sent", sorted(CODEC_IDS))
def test_producer_compression_type_is_kept(client: Client, bootstrap: str, topic: str, sent: str) -> None:
    client.create_topic(topic)
    client.produce(topic, [Message(b"the same again and again " * 20)] * 20, compression=sent)
    assert {attributes & CODEC_BITS for attributes in stored_attributes(bootstrap, topic)} == {
        CODEC_IDS[sent]
    }


def test_record_with_a_timestamp_too_old_is_rejected(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.before.max.ms": "3600000"})
    with pytest.raises(ErrorResponse) as error:
        client.produce(topic, [Message(b"v", timestamp_ms=1_500_000_000_000)])
    assert error.value.code == INVALID_TIMESTAMP
    assert client.offsets(topic) == (0, 0)


def test_producing_to_an_unknown_topic_creates_it(client: Client, topic: str) -> None:
    assert client.produce(topic, [Message(b"first")]) == [0]
    assert client.partitions_of(topic) == [0]
    assert [item.value for item in read_all(client, topic, 1)] == [b"first"]
