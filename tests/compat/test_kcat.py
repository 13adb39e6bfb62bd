"""kcat: metadata, produce and consume from the command line."""

from __future__ import annotations

import json

import pytest
from tests.compat.clients.interface import Message
from tests.compat.clients.kcat import Kcat, KcatFailed
from tests.compat.conftest import Clients

TIME = 1_700_000_000_000


@pytest.fixture
def kcat(bootstrap: str) -> Kcat:
    return Kcat(bootstrap)


def test_metadata_lists_brokers_and_the_topic(
    kcat: Kcat, clients: Clients, bootstrap: str, topic: str
) -> None:
    clients["aiokafka"].create_topic(topic, partitions=3)
    metadata = json.loads(kcat.run("-L", "-J", "-t", topic))
    assert sorted(broker["name"] for broker in metadata["brokers"]) == sorted(bootstrap.split(","))
    (described,) = metadata["topics"]
    assert described["topic"] == topic
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert metadata["controllerid"] in [broker["id"] for broker in metadata["brokers"]]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_round_trip(kcat: Kcat, clients: Clients, topic: str, codec: str) -> None:
    clients["aiokafka"].create_topic(topic)
    messages = [Message(f"line {number}".encode(), key=f"k{number}".encode()) for number in range(50)]
    kcat.produce(topic, messages, codec)
    result = kcat.consume(topic)
    assert [(item["offset"], item["key"], item["payload"]) for item in result] == [
        (number, f"k{number}", f"line {number}") for number in range(50)
    ]


def test_headers_and_nulls_round_trip(kcat: Kcat, clients: Clients, topic: str) -> None:
    clients["aiokafka"].create_topic(topic)
    kcat.produce(topic, [Message(b"v", None), Message(None, b"k")], "none", "-H", "a=1", "-H", "b=2")
    first, second = kcat.consume(topic)
    assert (first["key"], first["payload"], first["headers"]) == (None, "v", ["a", "1", "b", "2"])
    assert (second["key"], second["payload"]) == ("k", None)


def test_consuming_starts_at_an_offset_a_negative_offset_or_a_timestamp(
    kcat: Kcat, clients: Clients, topic: str
) -> None:
    clients["aiokafka"].create_topic(topic)
    messages = [Message(str(number).encode(), timestamp_ms=TIME + 1000 * number) for number in range(10)]
    clients["aiokafka"].produce(topic, messages)
    for start, first in (("4", 4), ("-3", 7), (f"s@{TIME + 5500}", 6)):
        assert [item["offset"] for item in kcat.consume(topic, start)] == list(range(first, 10))


def test_offset_of_a_timestamp_is_queried(kcat: Kcat, clients: Clients, topic: str) -> None:
    clients["aiokafka"].create_topic(topic)
    clients["aiokafka"].produce(topic, [Message(b"v", timestamp_ms=TIME + number) for number in range(5)])
    assert kcat.run("-Q", "-t", f"{topic}:0:{TIME + 3}").decode().strip() == f"{topic} [0] offset 3"


def test_idempotent_producer_delivers(kcat: Kcat, clients: Clients, topic: str) -> None:
    clients["aiokafka"].create_topic(topic)
    kcat.produce(
        topic,
        [Message(str(number).encode()) for number in range(100)],
        "none",
        "-X",
        "enable.idempotence=true",
    )
    assert [item["payload"] for item in kcat.consume(topic)] == [str(number) for number in range(100)]


def test_producing_creates_the_topic(kcat: Kcat, topic: str) -> None:
    kcat.produce(topic, [Message(b"first")])
    assert [item["payload"] for item in kcat.consume(topic)] == ["first"]


def test_unknown_partition_is_reported(kcat: Kcat, clients: Clients, topic: str) -> None:
    clients["aiokafka"].create_topic(topic)
    with pytest.raises(KcatFailed, match="partition 7 does not exist"):
        kcat.run("-C", "-t", topic, "-p", "7", "-e", "-q")
