"""Batches of topics that compress well hold more, and one refused as too large begins anew."""

from __future__ import annotations

from odradek.client.producer.accumulator.batch_compression import BatchCompression
from odradek.model.protocol_enums import Compression
from odradek.records.codec import ProducerBatch

BATCH_BYTES = 1000


def batch(value: bytes) -> ProducerBatch:
    made = ProducerBatch("t", 0, 100_000, 0)
    assert made.append(0, None, value, None) is not None
    return made


def test_without_compression_a_batch_holds_what_it_may_be() -> None:
    packing = BatchCompression(Compression.NONE, None, BATCH_BYTES)
    plain = batch(bytes(500))
    assert len(packing.finisher(transactional=False)(plain)) == plain.size_bytes
    assert packing.capacity_bytes("t") == BATCH_BYTES


def test_what_compresses_well_gets_more_room_little_by_little() -> None:
    packing = BatchCompression(Compression.ZSTD, 3, BATCH_BYTES)
    finish = packing.finisher(transactional=False)
    rooms = []
    for _ in range(300):
        finish(batch(bytes(5000)))
        rooms.append(packing.capacity_bytes("t"))
    assert rooms[0] < 1010
    assert rooms == sorted(rooms)
    assert rooms[-1] == 8 * BATCH_BYTES, "and no more than that"
    assert packing.capacity_bytes("other") == BATCH_BYTES


def test_what_compresses_worse_than_thought_loses_its_room_at_once() -> None:
    packing = BatchCompression(Compression.GZIP, -1, BATCH_BYTES)
    finish = packing.finisher(transactional=False)
    for _ in range(150):
        finish(batch(bytes(5000)))
    assert packing.capacity_bytes("t") > 3 * BATCH_BYTES
    packing.was_too_large("t")
    assert packing.capacity_bytes("t") == BATCH_BYTES


def test_a_batch_is_compressed_once_however_often_it_is_sent() -> None:
    packing = BatchCompression(Compression.LZ4, 9, BATCH_BYTES)
    finish = packing.finisher(transactional=True)
    sent = batch(bytes(5000))
    first = bytes(finish(sent))
    sent.last_attempt_ms = 5
    sent.base_sequence = 9
    again = bytes(finish(sent))
    assert first[61:] == again[61:]
    assert first != again, "the header has the new numbers"


def test_zstd_needs_a_newer_version() -> None:
    assert BatchCompression(Compression.ZSTD, 3, BATCH_BYTES).produce_version_min() == 7
    assert BatchCompression(Compression.GZIP, 3, BATCH_BYTES).produce_version_min() == 3
