"""Records produced by one client are read by every other one."""

from __future__ import annotations

import pytest
from tests.compat.clients.interface import Message, read_all
from tests.compat.clients.kafka_python_2 import KafkaPython2
from tests.compat.clients.kcat import Kcat
from tests.compat.conftest import CLIENT_FACTORIES, Clients

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIME = 1_700_000_000_000
MESSAGES = [
    Message(f"wert {number} ".encode() * 8, key=f"k{number}".encode(), timestamp_ms=TIME + number)
    for number in range(40)
]
ODDITIES = [
    Message(None, key=b"gone", timestamp_ms=TIME),
    Message(b"", key=b"", timestamp_ms=TIME + 1),
    Message(b"no key", timestamp_ms=TIME + 2),
    Message(b"v", b"k", (("trace", b"1"), ("trace", b"2"), ("nothing", b"")), TIME + 3),
    Message("Fuß".encode(), "Käfer".encode(), (("größe", "7½".encode()),), TIME + 4),
]


@pytest.mark.parametrize("writer", sorted(CLIENT_FACTORIES))
def test_every_client_reads_what_one_wrote_with_every_codec(
    clients: Clients, bootstrap: str, topic: str, writer: str
) -> None:
    clients[writer].create_topic(topic)
    for codec in CODECS:
        clients[writer].produce(topic, MESSAGES, compression=codec)
    expected = [
        (offset, item.key, item.value, item.timestamp_ms)
        for offset, item in enumerate(MESSAGES * len(CODECS))
    ]
    for reader in sorted(CLIENT_FACTORIES):
        received = read_all(clients[reader], topic, len(expected))
        assert [(item.offset, item.key, item.value, item.timestamp_ms) for item in received] == expected, (
            reader
        )
    old = KafkaPython2(bootstrap).consume(topic, len(expected))
    assert [tuple(item) for item in old] == expected


@pytest.mark.parametrize("writer", sorted(CLIENT_FACTORIES))
def test_headers_tombstones_and_empty_fields_round_trip_between_all_clients(
    clients: Clients, topic: str, writer: str
) -> None:
    clients[writer].create_topic(topic)
    clients[writer].produce(topic, ODDITIES)
    expected = [(item.key, item.value, tuple(item.headers), item.timestamp_ms) for item in ODDITIES]
    for reader in sorted(CLIENT_FACTORIES):
        received = read_all(clients[reader], topic, len(expected))
        assert [(item.key, item.value, item.headers, item.timestamp_ms) for item in received] == expected, (
            reader
        )


@pytest.mark.parametrize("writer", sorted(CLIENT_FACTORIES))
def test_kcat_reads_what_one_wrote_with_every_codec(
    clients: Clients, bootstrap: str, topic: str, writer: str
) -> None:
    kcat = Kcat(bootstrap)
    clients[writer].create_topic(topic)
    for codec in CODECS:
        clients[writer].produce(topic, MESSAGES, compression=codec)
    expected = [
        (offset, (item.key or b"").decode(), (item.value or b"").decode(), item.timestamp_ms)
        for offset, item in enumerate(MESSAGES * len(CODECS))
    ]
    assert [
        (item["offset"], item["key"], item["payload"], item["ts"]) for item in kcat.consume(topic)
    ] == expected


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_kcat_wrote(clients: Clients, bootstrap: str, topic: str, codec: str) -> None:
    kcat = Kcat(bootstrap)
    clients["aiokafka"].create_topic(topic)
    kcat.produce(topic, MESSAGES, codec, "-H", "from=kcat")
    for reader in sorted(CLIENT_FACTORIES):
        received = read_all(clients[reader], topic, len(MESSAGES))
        assert [(item.key, item.value, item.headers) for item in received] == [
            (item.key, item.value, (("from", b"kcat"),)) for item in MESSAGES
        ], reader


def test_topic_created_and_altered_by_one_client_looks_the_same_to_all(clients: Clients, topic: str) -> None:
    factories = sorted(CLIENT_FACTORIES)
    for number, maker in enumerate(factories):
        name = f"{topic}-{number}"
        clients[maker].create_topic(name, partitions=2, configs={"retention.ms": "1000000"})
        clients[maker].create_partitions(name, 3)
        clients[maker].alter_configs(name, {"segment.bytes": "2000000"})
        seen = [
            (clients[other].partitions_of(name), clients[other].describe_configs(name)["segment.bytes"])
            for other in factories
        ]
        assert seen == [([0, 1, 2], "2000000")] * len(factories)
