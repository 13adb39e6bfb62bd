"""Dump of log files. The expected lines were compared with the output of Kafka's tool for the same files."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.dump import DumpOptions, dump
from odradek.log.segments.segment_format import OFFSETS, TIMES
from odradek.log.segments.transaction_index import AbortedTransaction, encode_aborted
from odradek.model.protocol_enums import Compression
from odradek.records.batch import BatchBuilder
from odradek.records.codec import read_headers
from odradek.records.control_records import ControlRecordType, EndTransactionMarker, build_end_marker
from odradek.records.conversion import down_convert
from odradek.records.validation import AppendOrigin

Batch = Callable[..., bytearray]


class DumpOutput:
    def __init__(self, harness: Any) -> None:
        self.harness = harness
        self.written: list[str] = []
        self.complaints: list[str] = []
        self.problems = 0

    def dump(self, *names: str, **options: Any) -> list[str]:
        self.written, self.complaints = [], []
        paths = [self.harness.path(name) for name in names]
        self.problems = dump(
            self.harness.files, paths, DumpOptions(**options), self.written.append, self.complaints.append
        )
        return self.written


@pytest.fixture
def output(harness: Any) -> DumpOutput:
    return DumpOutput(harness)


LOG, INDEX, TIME_INDEX = (f"{'0' * 20}.{suffix}" for suffix in ("log", "index", "timeindex"))


def _log(harness: Any) -> None:
    log = harness.create(index_interval_bytes=100)
    builder = BatchBuilder(producer_id=7, producer_epoch=1, base_sequence=3, compression=Compression.GZIP)
    builder.append(1000, b"k", b"v", [("h1", b"x"), ("h2", None)])
    builder.append(1002, None, b"w")
    builder.append(1001, b"l", None)
    log.append_as_leader(bytearray(builder.build()), 5, 0)
    marker = EndTransactionMarker(ControlRecordType.ABORT, 9)
    data = build_end_marker(marker, producer_id=7, producer_epoch=1, timestamp=1003)
    log.append_as_leader(bytearray(data), 5, 0, origin=AppendOrigin.COORDINATOR)
    harness.append(log, timestamp=1004, leader_epoch=6)
    harness.run(log.close())


def test_batches(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    headers = read_headers(harness.files.read_whole(harness.path(LOG)))
    dumped = output.dump(LOG)
    assert dumped[:2] == [f"Dumping {harness.path(LOG)}", "Log starting offset: 0"]
    assert dumped[2:] == [
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: 3 lastSequence: 5 producerId: 7 producerEpoch: 1 "
        "partitionLeaderEpoch: 5 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        f"position: 0 CreateTime: 1002 size: {headers[0].size_bytes} magic: 2 compresscodec: gzip "
        f"crc: {headers[0].crc} isvalid: true",
        "baseOffset: 3 lastOffset: 3 count: 1 baseSequence: -1 lastSequence: -1 producerId: 7 "
        "producerEpoch: 1 partitionLeaderEpoch: 5 isTransactional: true isControl: true "
        "deleteHorizonMs: OptionalLong.empty "
        f"position: {headers[1].position} CreateTime: 1003 size: {headers[1].size_bytes} magic: 2 "
        f"compresscodec: none crc: {headers[1].crc} isvalid: true",
        "baseOffset: 4 lastOffset: 4 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 "
        "producerEpoch: -1 partitionLeaderEpoch: 6 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: {headers[2].position} CreateTime: 1004 "
        f"size: {headers[2].size_bytes} magic: 2 compresscodec: none crc: {headers[2].crc} isvalid: true",
    ]
    assert (output.problems, output.complaints) == (0, [])


def test_records(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    assert [line for line in output.dump(LOG, deep_iteration=True) if line.startswith("|")] == [
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: 3 headerKeys: [h1,h2]",
        "| offset: 1 CreateTime: 1002 keySize: -1 valueSize: 1 sequence: 4 headerKeys: []",
        "| offset: 2 CreateTime: 1001 keySize: 1 valueSize: -1 sequence: 5 headerKeys: []",
        "| offset: 3 CreateTime: 1003 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: ABORT coordinatorEpoch: 9",
        "| offset: 4 CreateTime: 1004 keySize: 3 valueSize: 5 sequence: -1 headerKeys: []",
    ]
    printed = output.dump(LOG, print_data_log=True)
    assert printed[3].endswith("headerKeys: [h1,h2] key: k payload: v")
    assert printed[4].endswith("headerKeys: [] payload: w")
    assert printed[5].endswith("headerKeys: [] key: l")
    bare = output.dump(LOG, print_data_log=True, skip_record_metadata=True)
    assert bare[3:6] == ["| key: k payload: v", " payload: w", "| key: l"]


def test_records_are_printed_with_a_decoder(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    dumped = output.dump(
        LOG, decode=lambda record: (f"<{record.offset}>", "gone" if not record.value else None)
    )
    printed_keys = [line.partition("headerKeys: ")[2] for line in dumped if line.startswith("|")]
    marker = "[] endTxnMarker: ABORT coordinatorEpoch: 9"
    assert printed_keys == [
        "[h1,h2] key: <0>",
        "[] key: <1>",
        "[] key: <2> payload: gone",
        marker,
        "[] key: <4>",
    ]


def test_indexes(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    headers = read_headers(harness.files.read_whole(harness.path(LOG)))
    assert output.dump(INDEX)[1:] == [f"offset: 3 position: {headers[1].position}"]
    assert output.dump(TIME_INDEX)[1:] == ["timestamp: 1003 offset: 3", "timestamp: 1004 offset: 4"]
    assert output.dump(INDEX, TIME_INDEX, verify_index_only=True) == [
        f"Dumping {harness.path(INDEX)}",
        f"Dumping {harness.path(TIME_INDEX)}",
    ]
    assert output.dump(INDEX, TIME_INDEX, index_sanity_check=True)[1::2] == [
        f"{harness.path(INDEX)} passed sanity check.",
        f"{harness.path(TIME_INDEX)} passed sanity check.",
    ]
    assert (output.problems, output.complaints) == (0, [])


def test_empty_index_is_reported(harness: Any, output: DumpOutput) -> None:
    harness.create()
    assert output.dump(INDEX)[1:] == [f"{harness.path(INDEX)} is empty."]
    assert output.dump(TIME_INDEX)[1:] == []


def test_leader_epochs(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    assert output.dump("leader-epoch-checkpoint")[1:] == [
        "leaderEpoch: 5 startOffset: 0",
        "leaderEpoch: 6 startOffset: 4",
    ]
    harness.files.write_whole(harness.path("leader-epoch-checkpoint"), b"x\n1\n")
    output.dump("leader-epoch-checkpoint")
    assert output.problems == 1
    assert "leader-epoch-checkpoint" in output.complaints[0]


def test_index_mismatches_are_reported(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    harness.files.write_whole(
        harness.path(INDEX), OFFSETS.pair.pack(3, 0) + OFFSETS.pair.pack(4, 5) + OFFSETS.pair.pack(0, 0)
    )
    assert output.dump(INDEX)[1:] == ["offset: 3 position: 0", "offset: 4 position: 5"]
    assert output.complaints == [
        f"Mismatches in :{harness.path(INDEX)}",
        "  Index offset: 3, log offset: 2",
        "  Index offset: 4, log offset: -1",
    ]
    assert output.problems == 2
    harness.files.write_whole(harness.path(INDEX), b"")
    entries = [(1500, 2), (1002, 2), (1003, 1), (2000, 77)]
    harness.files.write_whole(
        harness.path(TIME_INDEX), b"".join(TIMES.pair.pack(*entry) for entry in entries)
    )
    output.dump(TIME_INDEX)
    path = harness.path(TIME_INDEX)
    assert output.complaints == [
        f"Found timestamp mismatch in :{path}",
        "  Index timestamp: 1500, log timestamp: 1002",
        f"Found out of order timestamp in :{path}",
        "  Index timestamp: 1002, Previously indexed timestamp: 1500",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 1, found log offset: 2",
        "Indexed offset: 77, found log offset: -1",
    ]
    output.dump(TIME_INDEX, index_sanity_check=True)
    assert output.problems == 0
    harness.files.write_whole(path, b"odd")
    output.dump(TIME_INDEX, index_sanity_check=True)
    assert output.problems == 1


def test_offset_gaps_are_reported(harness: Any, output: DumpOutput, batch: Batch) -> None:
    log = harness.create()
    log.append_as_follower(batch(2) + batch(1, base_offset=5), 0, 0)
    harness.run(log.close())
    output.dump(LOG, deep_iteration=True)
    assert output.complaints == [f"Non-consecutive offsets in {harness.path(LOG)}", "  1 is followed by 5"]
    assert output.problems == 0


def test_corruption_is_reported(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    path = harness.path(LOG)
    content = bytearray(harness.files.read_whole(path))
    second = read_headers(content)[1].position
    content[second - 1] ^= 0xFF
    harness.files.write_whole(path, bytes(content[:-3]))
    dumped = output.dump(LOG, deep_iteration=True)
    assert dumped[2].endswith("isvalid: false")
    assert dumped[-1] == f"Found {76 - 3} invalid bytes at the end of {LOG}"
    assert output.complaints[0].startswith("The records of the batch at position 0 cannot be read: ")
    assert output.problems == 2


def test_max_bytes_limits_the_dump(harness: Any, output: DumpOutput) -> None:
    _log(harness)
    assert len(output.dump(LOG)) == 5
    second = read_headers(harness.files.read_whole(harness.path(LOG)))[1]
    assert len(output.dump(LOG, max_bytes=second.end_position)) == 4
    assert output.problems == 0


def test_old_messages(harness: Any, output: DumpOutput, batch: Batch) -> None:
    harness.create()
    data = bytes(down_convert(batch(2), 1, 0)) + bytes(down_convert(batch(1, base_offset=2), 0, 0))
    harness.files.write_whole(harness.path(LOG), data)
    dumped = output.dump(LOG, deep_iteration=True)
    assert dumped[2].startswith(
        "offset: 0 position: 0 CreateTime: 1000 size: 42 magic: 1 compresscodec: none"
    )
    assert dumped[3] == "| offset: 0 CreateTime: 1000 keySize: 3 valueSize: 5"
    assert "NoTimestampType: -1" in dumped[-1]


def test_missing_and_unknown_files_are_reported(harness: Any, output: DumpOutput) -> None:
    harness.create()
    harness.files.write_whole(harness.path("notes.txt"), b"")
    output.dump("notes.txt", f"{'0' * 19}9.log")
    assert output.complaints == [
        f"Ignoring unknown file {harness.path('notes.txt')}",
        f"{harness.path('0' * 19)}9.log does not exist",
    ]
    assert output.problems == 1


SNAPSHOT, TRANSACTIONS = "00000000000000000005.snapshot", f"{'0' * 20}.txnindex"


def _transactions(harness: Any, batch: Batch) -> None:
    log = harness.create()
    data = batch(2, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    log.append_as_leader(data, 0, harness.now_ms)
    log.append_as_leader(
        batch(2, producer_id=8, producer_epoch=0, base_sequence=3, transactional=True), 0, harness.now_ms
    )
    log.append_end_marker(EndTransactionMarker(ControlRecordType.ABORT, 9), 7, 2, 0, harness.now_ms)
    harness.run(log.close())


def test_producers_and_aborted_transactions(harness: Any, batch: Batch, output: DumpOutput) -> None:
    _transactions(harness, batch)
    assert output.dump(SNAPSHOT)[1:] == [
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: 9 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1000000 ",
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[2] "
        "lastTimestamp: 1001 firstSequence: 3 lastSequence: 4 lastOffset: 3 offsetDelta: 1 timestamp: 1001",
    ]
    assert output.dump(TRANSACTIONS)[1:] == [
        "version: 0 producerId: 7 firstOffset: 0 lastOffset: 4 lastStableOffset: 2"
    ]
    assert output.dump(TRANSACTIONS, verify_index_only=True)[1:] == []
    assert (output.problems, output.complaints) == (0, [])


def test_corrupt_snapshot_is_reported(harness: Any, batch: Batch, output: DumpOutput) -> None:
    _transactions(harness, batch)
    content = bytearray(harness.files.read_whole(harness.path(SNAPSHOT)))
    content[30] ^= 1
    harness.files.write_whole(harness.path(SNAPSHOT), bytes(content))
    assert output.dump(SNAPSHOT) == [f"Dumping {harness.path(SNAPSHOT)}"]
    assert output.problems == 1
    assert "CRC is no longer valid" in output.complaints[0]


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ((8, 0, 4, 2), "the log has no abort marker"),
        ((7, 0, 3, 2), "the log has no abort marker"),
        ((7, 5, 4, 2), "invalid entry"),
    ],
)
def test_transaction_index_mismatches_are_reported(
    harness: Any, batch: Batch, output: DumpOutput, entry: tuple[int, int, int, int], complaint: str
) -> None:
    _transactions(harness, batch)
    harness.files.write_whole(harness.path(TRANSACTIONS), encode_aborted([AbortedTransaction(*entry)]))
    output.dump(TRANSACTIONS)
    assert output.problems == 1
    assert complaint in output.complaints[0]
