"""Produce and consume: values, keys, headers, timestamps, codecs, acks."""

from __future__ import annotations

import random

import pytest
from tests.compat.clients.interface import Client, ErrorResponse, Message, read_all

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGE_TOO_LARGE = 10


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_round_trip_in_order(client: Client, topic: str, codec: str) -> None:
    client.create_topic(topic)
    messages = [
        Message(f"{codec} {number} ".encode() * 20, key=f"k{number}".encode()) for number in range(200)
    ]
    assert client.produce(topic, messages, compression=codec) == list(range(200))
    received = read_all(client, topic, 200)
    assert [(item.offset, item.key, item.value) for item in received] == [
        (offset, message.key, message.value) for offset, message in enumerate(messages)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_incompressible_bytes_round_trip(client: Client, topic: str, codec: str) -> None:
    client.create_topic(topic)
    noise = random.Random(7).randbytes(60_000)
    client.produce(topic, [Message(noise)], compression=codec)
    assert read_all(client, topic, 1)[0].value == noise


def test_null_and_empty_keys_and_values_are_distinct(client: Client, topic: str) -> None:
    client.create_topic(topic)
    pairs = [(None, b"v"), (b"", b"v"), (b"k", None), (b"k", b"")]
    client.produce(topic, [Message(value, key) for key, value in pairs])
    assert [(item.key, item.value) for item in read_all(client, topic, 4)] == pairs


def test_repeated_headers_keep_their_order(client: Client, topic: str) -> None:
    client.create_topic(topic)
    headers = (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("größe", "π".encode()))
    client.produce(topic, [Message(b"v", headers=headers)])
    assert read_all(client, topic, 1)[0].headers == headers


def test_producer_timestamps_round_trip(client: Client, topic: str) -> None:
    client.create_topic(topic)
    times = [1_600_000_000_000, 1_600_000_000_001, 1_500_000_000_000]
    client.produce(topic, [Message(b"v", timestamp_ms=time) for time in times])
    assert [item.timestamp_ms for item in read_all(client, topic, 3)] == times


@pytest.mark.parametrize("codec", CODECS)
def test_message_of_900_kilobytes_round_trips(client: Client, topic: str, codec: str) -> None:
    client.create_topic(topic)
    large = random.Random(11).randbytes(900_000)
    client.produce(topic, [Message(large)], compression=codec)
    assert read_all(client, topic, 1)[0].value == large


def test_message_above_the_broker_limit_is_rejected(client: Client, topic: str) -> None:
    client.create_topic(topic)
    with pytest.raises(ErrorResponse) as error:
        client.produce(topic, [Message(b"x" * 1_500_000)], bytes_max=4_000_000)
    assert error.value.code == MESSAGE_TOO_LARGE
    assert client.offsets(topic) == (0, 0)


def test_message_above_the_topic_limit_is_rejected_until_the_limit_is_raised(
    client: Client, topic: str
) -> None:
    client.create_topic(topic, configs={"max.message.bytes": "1000"})
    client.produce(topic, [Message(b"small")])
    with pytest.raises(ErrorResponse) as error:
        client.produce(topic, [Message(b"x" * 2_000)])
    assert error.value.code == MESSAGE_TOO_LARGE
    client.alter_configs(topic, {"max.message.bytes": "5000"})
    client.produce(topic, [Message(b"x" * 2_000)])
    assert [len(item.value or b"") for item in read_all(client, topic, 2)] == [5, 2_000]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_are_written_with_every_acks_value(client: Client, topic: str, acks: int) -> None:
    client.create_topic(topic)
    values = [str(number).encode() for number in range(30)]
    client.produce(topic, [Message(value) for value in values], acks=acks)
    assert [item.value for item in read_all(client, topic, 30)] == values


def test_idempotent_producer_writes_each_record_once(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    messages = [Message(str(number).encode(), partition=number % 2) for number in range(500)]
    client.produce(topic, messages, idempotent=True)
    received = read_all(client, topic, 500, partitions=[0, 1])
    for partition in (0, 1):
        values = [int(item.value or b"") for item in received if item.partition == partition]
        assert values == list(range(partition, 500, 2))
    assert client.offsets(topic, 0) == (0, 250)


def test_keyed_records_stay_in_one_partition(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=4)
    messages = [Message(b"v", key=f"key {number % 5}".encode(), partition=None) for number in range(50)]
    client.produce(topic, messages)
    received = read_all(client, topic, 50, partitions=range(4))
    assert len(received) == 50
    homes = {(item.key, item.partition) for item in received}
    assert len(homes) == 5
