"""Compaction of batches equals Kafka 3.9.1, byte for byte."""

from array import array
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.records import codec
from odradek.records.batch_filter import filter_batch
from odradek.records.layout import BatchHeader


class Case(NamedTuple):
    batches: bytes
    known: dict[bytes, int]
    latest_offset: int
    kept_last_offsets: list[int]
    now_ms: int
    delete_retention_ms: int
    discard_records: bool
    empty_transactions: bool
    drop_tombstones: bool
    kept: bytes


def listed(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")


def parse_case(line: str) -> Case:
    batches, known, latest, kept_last, now, retention, discard, empty, drop, kept = line.split(" ")
    pairs = (pair.split("=") for pair in listed(known))
    return Case(
        bytes.fromhex(batches),
        {bytes.fromhex(key): int(offset) for key, offset in pairs},
        int(latest),
        [int(offset) for offset in listed(kept_last)],
        int(now),
        int(retention),
        discard == "1",
        empty == "1",
        drop == "1",
        bytes.fromhex(kept.strip("-")),
    )


TEXT = (Path(__file__).parent / "compacted.txt").read_text(encoding="utf-8")
CASES = [parse_case(line) for line in TEXT.splitlines() if not line.startswith("#")]


def filter_log(case: Case) -> bytes:
    keys = codec.OffsetMap(16, bytes(16))
    for key, offset in case.known.items():
        keys.put(key, offset)
    keys.update_latest_offset(case.latest_offset)
    out = bytearray()
    kept_last = memoryview(array("q", case.kept_last_offsets))
    position = 0
    while True:
        if not case.discard_records:
            position = codec.filter_batches(
                case.batches, position, keys, kept_last, case.now_ms, case.delete_retention_ms, out
            ).position
        header = codec.header_at(case.batches, position)
        if header is None:
            return bytes(out)
        out += filter_other_batch(case, header, keys) or b""
        position = header.end_position


def filter_other_batch(case: Case, header: BatchHeader, keys: codec.OffsetMap) -> bytes | None:
    return filter_batch(
        case.batches,
        header,
        keys,
        discard_records=case.discard_records,
        keep_empty=header.has_producer_id and header.last_offset in case.kept_last_offsets,
        drop_tombstones_of_legacy=case.drop_tombstones,
        now_ms=case.now_ms,
        delete_retention_ms=case.delete_retention_ms,
        marker_of_empty_transaction=case.empty_transactions and header.is_control,
    )


def without_sizes(headers: list[BatchHeader]) -> list[BatchHeader]:
    """Compressors of the same codec may produce different sizes."""
    return [header._replace(position=0, size_bytes=0, crc=0) for header in headers]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_retained_records_equal_kafka(case: Case) -> None:
    filtered = filter_log(case)
    theirs, ours = codec.read_headers(case.kept), codec.read_headers(filtered)
    assert without_sizes(ours) == without_sizes(theirs)
    assert codec.decode(filtered) == codec.decode(case.kept)
    if not any(header.codec_id for header in theirs):
        assert filtered == case.kept
