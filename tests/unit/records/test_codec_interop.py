"""Batches exchanged both ways with the codecs of kafka-python and aiokafka."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords

from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.batch import BatchBuilder, Record
from odradek.records.client import consumer as client_consumer
from odradek.records.client import producer as client_producer
from odradek.records.compression import compress, xxh32
from odradek.records.message_set import write_message_set
from odradek.records.validation import AppendRules, validate_and_assign_offsets

with warnings.catch_warnings():
    # kafka-python loads its schemas in a way that Python 3.11 wants no more.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords
    from kafka.record.memory_records import MemoryRecordsBuilder

NOW = 1_700_000_000_000
FORMATS = [(magic, kind) for magic in (0, 1, 2) for kind in Compression if magic == 2 or kind < 4]
# aiokafka does not know magic 0's own kind of LZ4.
AIOKAFKA_FORMATS = [known for known in FORMATS if known != (0, Compression.LZ4)]
ROWS = [
    Record(0, NOW, b"key", b"value" * 100, (("h", b"x"), ("empty", b""), ("ü", None))),
    Record(1, NOW + 50, None, b"v"),
    Record(2, NOW + 20, b"k", None),
    Record(3, NOW, b"", b"\x00\xff" * 20_000),
]


@pytest.fixture(autouse=True)
def old_lz4_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kafka-python write and read magic 0 LZ4, for which it wants a hash library that is not a must."""

    def hashed(data: bytes) -> SimpleNamespace:
        return SimpleNamespace(digest=lambda: xxh32(bytes(data)).to_bytes(4, "big"))

    monkeypatch.setattr(kafka.codec, "xxhash", SimpleNamespace(xxh32=hashed))


def rows(magic: int) -> list[Record]:
    if magic == 2:
        return ROWS
    return [row._replace(headers=(), timestamp=row.timestamp if magic else -1) for row in ROWS]


def ours(magic: int, kind: Compression) -> bytes:
    if magic < 2:
        return write_message_set(ROWS, magic, kind)
    builder = BatchBuilder(compression=kind)
    for row in ROWS:
        builder.append(row.timestamp, row.key, row.value, row.headers)
    return builder.build()


def by_kafka_python(magic: int, kind: Compression) -> bytes:
    builder = MemoryRecordsBuilder(magic, int(kind), 1 << 20)
    for row in ROWS:
        builder.append(row.timestamp, row.key, row.value, list(row.headers) if magic == 2 else [])
    builder.close()
    return bytes(builder.buffer())


def by_aiokafka(magic: int, kind: Compression) -> bytes:
    builder: Any
    if magic < 2:
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(kind), batch_size=1 << 20)
    else:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=int(kind),
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
    for row in ROWS:
        extra = ([*row.headers],) if magic == 2 else ()
        builder.append(row.offset, row.timestamp, row.key, row.value, *extra)
    return bytes(builder.build())


def read_by_kafka_python(data: bytes) -> list[Record]:
    rows_read = []
    for batch in KafkaPythonRecords(data):
        assert batch.validate_crc()
        rows_read += [seen(record) for record in batch]
    return rows_read


def read_by_aiokafka(data: bytes) -> list[Record]:
    records = AioRecords(data)
    rows_read = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        rows_read += [seen(record) for record in batch]
    return rows_read


def seen(record: Any) -> Record:
    timestamp = -1 if record.timestamp is None else record.timestamp
    return Record(record.offset, timestamp, record.key, record.value, tuple(map(tuple, record.headers)))


@pytest.mark.parametrize(
    ("write", "magic", "kind"),
    [(by_kafka_python, *known) for known in FORMATS] + [(by_aiokafka, *known) for known in AIOKAFKA_FORMATS],
)
def test_batches_of_other_clients_are_decoded_and_validated(
    write: Callable[[int, Compression], bytes], magic: int, kind: Compression
) -> None:
    data = write(magic, kind)
    assert codec.decode(data) == rows(magic)
    assert all(codec.has_valid_crc(data, header) for header in codec.read_headers(data))
    validated = validate_and_assign_offsets(
        memoryview(bytearray(data)),
        next_offset=100,
        leader_epoch=0,
        now_ms=NOW,
        rules=AppendRules(),
        produce_version=2 if magic < 2 else 9,
    )
    assert codec.decode(validated.data) == [row._replace(offset=100 + row.offset) for row in rows(magic)]


@pytest.mark.parametrize(("magic", "kind"), FORMATS)
def test_kafka_python_decodes_our_batches(magic: int, kind: Compression) -> None:
    assert read_by_kafka_python(ours(magic, kind)) == rows(magic)


@pytest.mark.parametrize(("magic", "kind"), AIOKAFKA_FORMATS)
def test_aiokafka_decodes_our_batches(magic: int, kind: Compression) -> None:
    assert read_by_aiokafka(ours(magic, kind)) == rows(magic)


def by_our_producer(kind: Compression) -> bytes:
    batch = client_producer.ProducerBatch("t", 0, 1 << 20, NOW)
    for row in ROWS:
        assert batch.append(row.timestamp, row.key, row.value, row.headers) is not None
    packed = compress(kind, batch.plain_records()) if kind else None
    return bytes(batch.finish(int(kind), -1, -1, -1, packed))


@pytest.mark.parametrize("kind", list(Compression))
def test_other_clients_decode_batches_of_our_producer(kind: Compression) -> None:
    data = by_our_producer(kind)
    assert read_by_kafka_python(data) == read_by_aiokafka(data) == rows(2)
    if kind is Compression.NONE:
        assert data == ours(2, kind)


@pytest.mark.parametrize(
    ("write", "magic", "kind"),
    [(by_kafka_python, *known) for known in FORMATS] + [(by_aiokafka, *known) for known in AIOKAFKA_FORMATS],
)
def test_our_reader_decodes_batches_of_other_clients(
    write: Callable[[int, Compression], bytes], magic: int, kind: Compression
) -> None:
    reader = client_consumer.RecordReader(write(magic, kind), "t", 0, 0, aborted=[])
    records = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in reader.take(100)]
    assert records == [tuple(row) for row in rows(magic)]


def test_uncompressed_batches_have_the_same_bytes_in_all_clients() -> None:
    for magic in (0, 1, 2):
        written = ours(magic, Compression.NONE)
        for other in (by_kafka_python(magic, Compression.NONE), by_aiokafka(magic, Compression.NONE)):
            # A producer's leader epoch has no meaning; some write 0 and some -1.
            epoch = other[12:16] if magic == 2 else written[12:16]
            assert other == written[:12] + epoch + written[16:]
