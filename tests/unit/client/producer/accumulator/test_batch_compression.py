"""Batch capacity by compression ratio, and compression of batches."""

from __future__ import annotations

from odradek.client.producer.accumulator.batch_compression import BatchCompression
from odradek.model.protocol_enums import Compression
from odradek.records.client.producer import ProducerBatch

BATCH_BYTES = 1000


def new_batch(value: bytes) -> ProducerBatch:
    batch = ProducerBatch("t", 0, 100_000, 0)
    assert batch.append(0, None, value, None) is not None
    return batch


def test_capacity_without_compression_is_batch_size() -> None:
    batch_compression = BatchCompression(Compression.NONE, None, BATCH_BYTES)
    plain = new_batch(bytes(500))
    assert len(batch_compression.finisher(transactional=False)(plain)) == plain.size_bytes
    assert batch_compression.capacity_bytes("t") == BATCH_BYTES


def test_capacity_grows_slowly_with_a_good_compression_ratio() -> None:
    batch_compression = BatchCompression(Compression.ZSTD, 3, BATCH_BYTES)
    finish = batch_compression.finisher(transactional=False)
    capacities = []
    for _ in range(300):
        finish(new_batch(bytes(5000)))
        capacities.append(batch_compression.capacity_bytes("t"))
    assert capacities[0] < 1010
    assert capacities == sorted(capacities)
    assert capacities[-1] == 8 * BATCH_BYTES, "the maximum"
    assert batch_compression.capacity_bytes("other") == BATCH_BYTES


def test_capacity_resets_when_a_batch_was_too_large() -> None:
    batch_compression = BatchCompression(Compression.GZIP, -1, BATCH_BYTES)
    finish = batch_compression.finisher(transactional=False)
    for _ in range(150):
        finish(new_batch(bytes(5000)))
    assert batch_compression.capacity_bytes("t") > 3 * BATCH_BYTES
    batch_compression.on_batch_too_large("t")
    assert batch_compression.capacity_bytes("t") == BATCH_BYTES


def test_batch_is_compressed_once() -> None:
    batch_compression = BatchCompression(Compression.LZ4, 9, BATCH_BYTES)
    finish = batch_compression.finisher(transactional=True)
    sent = new_batch(bytes(5000))
    first = bytes(finish(sent))
    sent.last_attempt_ms = 5
    sent.base_sequence = 9
    retry = bytes(finish(sent))
    assert first[61:] == retry[61:]
    assert first != retry, "the header has the new sequence"


def test_zstd_requires_produce_version_7() -> None:
    assert BatchCompression(Compression.ZSTD, 3, BATCH_BYTES).produce_version_min() == 7
    assert BatchCompression(Compression.GZIP, 3, BATCH_BYTES).produce_version_min() == 3
