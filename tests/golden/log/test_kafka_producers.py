"""Snapshots and indexes of aborted transactions that Kafka 3.9.1 wrote: ours are the same to the byte, and so
are the lines that its dump tool shows for them."""

from pathlib import Path

import pytest

from odradek.log.producer_lines import aborted_line, producer_line
from odradek.log.producer_snapshots import decode_snapshot, encode_snapshot
from odradek.log.producers import KeptBatch, Producer
from odradek.log.transaction_index import (
    AbortedTransaction,
    check_aborted,
    decode_aborted,
    encode_aborted,
)

HERE = Path(__file__).parent
LINES = (HERE / "producers.txt").read_text(encoding="utf-8").splitlines()
FILES = {
    name: bytes.fromhex(content)
    for name, content in (line.split(" ") for line in LINES if not line.startswith("#"))
}
T = 1_700_000_000_000
LARGE = 2**62

PRODUCERS = [
    Producer(7, 3, -1, T + 123, -1, (KeptBatch(32, 41, 111, 120, T + 123),)),
    Producer(LARGE, 32767, 12, T + 456, 150, (KeptBatch(2**31 - 3, 1, 156, 160, T + 456),)),
    Producer(9, 0, 5, T + 789, -1, ()),
]
ABORTED = [
    AbortedTransaction(7, 90, 120, 95),
    AbortedTransaction(8, 95, 130, 131),
    AbortedTransaction(LARGE, 140, 199, 200),
]


@pytest.mark.parametrize(("name", "producers"), [("snapshot-empty", []), ("snapshot-three", PRODUCERS)])
def test_snapshots(name: str, producers: list[Producer]) -> None:
    assert decode_snapshot(FILES[name], name) == producers
    assert encode_snapshot(producers) == FILES[name]


def test_aborted_transactions() -> None:
    assert decode_aborted(FILES["txnindex"], "it") == ABORTED
    assert encode_aborted(ABORTED) == FILES["txnindex"]
    check_aborted(ABORTED, 100, "it")


def test_lines_of_the_dump_tool() -> None:
    assert [producer_line(one) for one in PRODUCERS] == [
        "producerId: 7 producerEpoch: 3 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700000000123 firstSequence: 32 lastSequence: 41 lastOffset: 120 offsetDelta: 9 "
        "timestamp: 1700000000123",
        "producerId: 4611686018427387904 producerEpoch: 32767 coordinatorEpoch: 12 "
        "currentTxnFirstOffset: OptionalLong[150] lastTimestamp: 1700000000456 firstSequence: 2147483645 "
        "lastSequence: 1 lastOffset: 160 offsetDelta: 4 timestamp: 1700000000456",
        "producerId: 9 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700000000789 ",
    ]
    assert [aborted_line(one) for one in ABORTED] == [
        "version: 0 producerId: 7 firstOffset: 90 lastOffset: 120 lastStableOffset: 95",
        "version: 0 producerId: 8 firstOffset: 95 lastOffset: 130 lastStableOffset: 131",
        "version: 0 producerId: 4611686018427387904 firstOffset: 140 lastOffset: 199 lastStableOffset: 200",
    ]
