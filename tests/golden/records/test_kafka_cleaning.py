"""What Kafka 3.9.1 keeps of batches when it compacts a log: ours must keep the same, in the same bytes."""

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


def case(line: str) -> Case:
    batches, known, latest, kept_last, now, retention, *flags, kept = line.split(" ")
    pairs = (pair.split("=") for pair in listed(known))
    return Case(
        bytes.fromhex(batches),
        {bytes.fromhex(key): int(offset) for key, offset in pairs},
        int(latest),
        [int(offset) for offset in listed(kept_last)],
        int(now),
        int(retention),
        *(flag == "1" for flag in flags),
        bytes.fromhex(kept.strip("-")),
    )


TEXT = (Path(__file__).parent / "sifted.txt").read_text(encoding="utf-8")
CASES = [case(line) for line in TEXT.splitlines() if not line.startswith("#")]


def sift_all(given: Case) -> bytes:
    keys = codec.OffsetMap(16, bytes(16))
    for key, offset in given.known.items():
        keys.put(key, offset)
    keys.update_latest_offset(given.latest_offset)
    out = bytearray()
    kept_last = array("q", given.kept_last_offsets)
    position = 0
    while True:
        if not given.discard_records:
            position = codec.filter_batches(
                given.batches, position, keys, kept_last, given.now_ms, given.delete_retention_ms, out
            ).position
        header = codec.header_at(given.batches, position)
        if header is None:
            return bytes(out)
        out += sift_one(given, header, keys) or b""
        position = header.end_position


def sift_one(given: Case, header: BatchHeader, keys: codec.OffsetMap) -> bytes | None:
    return filter_batch(
        given.batches,
        header,
        keys,
        discard_records=given.discard_records,
        keep_empty=header.has_producer_id and header.last_offset in given.kept_last_offsets,
        drop_tombstones_of_legacy=given.drop_tombstones,
        now_ms=given.now_ms,
        delete_retention_ms=given.delete_retention_ms,
        marker_of_empty_transaction=given.empty_transactions and header.is_control,
    )


def without_sizes(headers: list[BatchHeader]) -> list[BatchHeader]:
    """Two compressors of one codec need not give the same number of bytes."""
    return [header._replace(position=0, size_bytes=0, crc=0) for header in headers]


@pytest.mark.parametrize("given", CASES, ids=range(len(CASES)))
def test_what_kafka_keeps_is_kept(given: Case) -> None:
    made = sift_all(given)
    theirs, ours = codec.read_headers(given.kept), codec.read_headers(made)
    assert without_sizes(ours) == without_sizes(theirs)
    assert codec.decode(made) == codec.decode(given.kept)
    if not any(header.codec_id for header in theirs):
        assert made == given.kept
