"""Producer snapshots, transaction indexes and dump lines equal Kafka 3.9.1."""

import asyncio
from pathlib import Path

import pytest

from odradek.log.dump_lines import aborted_line, producer_line
from odradek.log.log_config import LogConfig
from odradek.log.producers.producer_states import BatchMetadata, ProducerStateEntry
from odradek.log.producers.snapshot_file import decode_snapshot, encode_snapshot
from odradek.log.recovery.log_loader import LogLoadContext, open_log
from odradek.log.segments.log_segment import OpenSegments
from odradek.log.segments.transaction_index import (
    AbortedTransaction,
    check_aborted,
    decode_aborted,
    encode_aborted,
)
from odradek.model.ids import TopicPartition
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem

HERE = Path(__file__).parent


def read(name: str) -> dict[str, bytes]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" ") for line in lines if not line.startswith("#"))
    return {name: bytes.fromhex(content) for name, content in pairs}


FILES = read("producers.txt")
T = 1_700_000_000_000
LARGE = 2**62

PRODUCERS = [
    ProducerStateEntry(7, 3, -1, T + 123, -1, (BatchMetadata(32, 41, 111, 120, T + 123),)),
    ProducerStateEntry(LARGE, 32767, 12, T + 456, 150, (BatchMetadata(2**31 - 3, 1, 156, 160, T + 456),)),
    ProducerStateEntry(9, 0, 5, T + 789, -1, ()),
]
ABORTED = [
    AbortedTransaction(7, 90, 120, 95),
    AbortedTransaction(8, 95, 130, 131),
    AbortedTransaction(LARGE, 140, 199, 200),
]


@pytest.mark.parametrize(("name", "producers"), [("snapshot-empty", []), ("snapshot-three", PRODUCERS)])
def test_producer_snapshots_equal_kafka(name: str, producers: list[ProducerStateEntry]) -> None:
    assert decode_snapshot(FILES[name], name) == producers
    assert encode_snapshot(producers) == FILES[name]


def test_transaction_index_equals_kafka() -> None:
    assert decode_aborted(FILES["txnindex"], "it") == ABORTED
    assert encode_aborted(ABORTED) == FILES["txnindex"]
    check_aborted(ABORTED, 100, "it")


def test_dump_lines_equal_kafka() -> None:
    assert [producer_line(producer) for producer in PRODUCERS] == [
        "producerId: 7 producerEpoch: 3 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700000000123 firstSequence: 32 lastSequence: 41 lastOffset: 120 offsetDelta: 9 "
        "timestamp: 1700000000123",
        "producerId: 4611686018427387904 producerEpoch: 32767 coordinatorEpoch: 12 "
        "currentTxnFirstOffset: OptionalLong[150] lastTimestamp: 1700000000456 firstSequence: 2147483645 "
        "lastSequence: 1 lastOffset: 160 offsetDelta: 4 timestamp: 1700000000456",
        "producerId: 9 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700000000789 ",
    ]
    assert [aborted_line(transaction) for transaction in ABORTED] == [
        "version: 0 producerId: 7 firstOffset: 90 lastOffset: 120 lastStableOffset: 95",
        "version: 0 producerId: 8 firstOffset: 95 lastOffset: 130 lastStableOffset: 131",
        "version: 0 producerId: 4611686018427387904 firstOffset: 140 lastOffset: 199 lastStableOffset: 200",
    ]


@pytest.mark.parametrize("had_clean_shutdown", [True, False])
def test_recovery_rebuilds_the_files_of_kafka(had_clean_shutdown: bool) -> None:
    kafka = read("transactions.txt")
    files = MemoryFileSystem()
    files.make_directories("/data/orders-0")
    for name, content in kafka.items():
        if name.endswith(".log"):
            files.write_whole(f"/data/orders-0/{name}", content)
    index_names = [name for name in kafka if name.endswith(".txnindex")]
    if had_clean_shutdown:
        for name in index_names:
            files.write_whole(f"/data/orders-0/{name}", b"to be rebuilt")
    how = LogLoadContext(files, SeededEntropy(0), OpenSegments(), had_clean_shutdown=had_clean_shutdown)
    log = open_log(TopicPartition("orders", 0), "/data/orders-0", LogConfig(), how)
    asyncio.run(log.close())
    assert len(index_names) > 1
    for name in index_names:
        assert files.read_whole(f"/data/orders-0/{name}") == kafka[name]
    snapshots = {name for name in kafka if name.endswith(".snapshot")}
    assert snapshots == {name for name in files.list_names("/data/orders-0") if name.endswith(".snapshot")}
    for name in snapshots:
        producers = decode_snapshot(files.read_whole(f"/data/orders-0/{name}"), name)
        assert sorted(producers) == sorted(decode_snapshot(kafka[name], name))
