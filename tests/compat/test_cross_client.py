"""A record made by one client is read by every other one."""

from __future__ import annotations

import pytest
from tests.compat.clients.interface import Message, read_all
from tests.compat.clients.kafka_python_2 import KafkaPython2
from tests.compat.clients.kcat import Kcat
from tests.compat.conftest import MAKERS, Clients

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


@pytest.mark.parametrize("writer", sorted(MAKERS))
def test_every_client_reads_what_one_wrote_with_every_codec(
    clients: Clients, bootstrap: str, topic: str, writer: str
) -> None:
    clients[writer].create_topic(topic)
    for codec in CODECS:
        clients[writer].produce(topic, MESSAGES, compression=codec)
    expected = [
        (offset, one.key, one.value, one.timestamp_ms) for offset, one in enumerate(MESSAGES * len(CODECS))
    ]
    for reader in sorted(MAKERS):
        received = read_all(clients[reader], topic, len(expected))
        assert [(one.offset, one.key, one.value, one.timestamp_ms) for one in received] == expected, reader
    old = KafkaPython2(bootstrap).consume(topic, len(expected))
    assert [tuple(one) for one in old] == expected


@pytest.mark.parametrize("writer", sorted(MAKERS))
def test_headers_tombstones_and_empty_fields_come_through_between_all_clients(
    clients: Clients, topic: str, writer: str
) -> None:
    clients[writer].create_topic(topic)
    clients[writer].produce(topic, ODDITIES)
    expected = [(one.key, one.value, tuple(one.headers), one.timestamp_ms) for one in ODDITIES]
    for reader in sorted(MAKERS):
        received = read_all(clients[reader], topic, len(expected))
        assert [(one.key, one.value, one.headers, one.timestamp_ms) for one in received] == expected, reader


@pytest.mark.parametrize("writer", sorted(MAKERS))
def test_kcat_reads_what_one_wrote_with_every_codec(
    clients: Clients, bootstrap: str, topic: str, writer: str
) -> None:
    kcat = Kcat(bootstrap)
    clients[writer].create_topic(topic)
    for codec in CODECS:
        clients[writer].produce(topic, MESSAGES, compression=codec)
    expected = [
        (offset, (one.key or b"").decode(), (one.value or b"").decode(), one.timestamp_ms)
        for offset, one in enumerate(MESSAGES * len(CODECS))
    ]
    assert [(one["offset"], one["key"], one["payload"], one["ts"]) for one in kcat.consume(topic)] == expected


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_kcat_wrote(clients: Clients, bootstrap: str, topic: str, codec: str) -> None:
    kcat = Kcat(bootstrap)
    clients["aiokafka"].create_topic(topic)
    kcat.produce(topic, MESSAGES, codec, "-H", "from=kcat")
    for reader in sorted(MAKERS):
        received = read_all(clients[reader], topic, len(MESSAGES))
        assert [(one.key, one.value, one.headers) for one in received] == [
            (one.key, one.value, (("from", b"kcat"),)) for one in MESSAGES
        ], reader


def test_topic_made_and_changed_by_one_client_is_seen_the_same_by_all(clients: Clients, topic: str) -> None:
    makers = sorted(MAKERS)
    for number, maker in enumerate(makers):
        name = f"{topic}-{number}"
        clients[maker].create_topic(name, partitions=2, configs={"retention.ms": "1000000"})
        clients[maker].create_partitions(name, 3)
        clients[maker].alter_configs(name, {"segment.bytes": "2000000"})
        seen = [
            (clients[other].partitions_of(name), clients[other].describe_configs(name)["segment.bytes"])
            for other in makers
        ]
        assert seen == [([0, 1, 2], "2000000")] * len(makers)
