"""Built batches and their headers."""

import pytest

from odradek.model.errors import LocalProtocolViolation
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.batch import BatchBuilder, BatchHeader
from odradek.records.client import consumer as client_consumer
from odradek.records.layout import advance_sequence


def header_of(builder: BatchBuilder) -> BatchHeader:
    data = builder.build()
    (header,) = codec.read_headers(data)
    assert codec.has_valid_crc(data, header)
    return header


def filled(count: int = 2, **fields: object) -> BatchBuilder:
    builder = BatchBuilder(40, **fields)  # type: ignore[arg-type]
    for index in range(count):
        builder.append(1000 - index, b"k", b"v")
    return builder


def test_header_fields_and_properties() -> None:
    header = header_of(
        filled(leader_epoch=3, producer_id=8, producer_epoch=1, base_sequence=5, transactional=True)
    )
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 41, 42)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        8,
        1,
        5,
        6,
    )
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_control
    assert header.delete_horizon_ms is None
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.end_position == header.size_bytes


def test_batch_without_producer_has_no_sequence() -> None:
    header = header_of(filled())
    assert not header.has_producer_id
    assert header.last_sequence == -1


def test_sequences_wrap_to_0() -> None:
    assert advance_sequence(2**31 - 1, 1) == 0
    assert advance_sequence(2**31 - 2, 3) == 1
    assert header_of(filled(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)).last_sequence == 0


def test_builder_size() -> None:
    builder = filled(1)
    assert builder.count == 1
    assert builder.append(1000, None, None) == builder.size_bytes == len(builder.build())


def test_log_append_time_applies_to_all_records() -> None:
    builder = filled(append_time_ms=5000)
    assert header_of(builder).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in codec.decode(builder.build())} == {5000}


@pytest.mark.parametrize("kind", list(Compression))
def test_compacted_batches_keep_offsets_and_offset_range(kind: Compression) -> None:
    builder = BatchBuilder(40, compression=kind, delete_horizon_ms=9000)
    builder.append(1000, b"a", b"1", offset=42)
    builder.append(900, b"b", None, offset=45)
    data = builder.build(last_offset=49)
    (header,) = codec.read_headers(data)
    assert (header.base_offset, header.last_offset, header.count) == (40, 49, 2)
    assert header.delete_horizon_ms == 9000
    assert [(record.offset, record.timestamp) for record in codec.decode(data)] == [(42, 1000), (45, 900)]


def test_empty_batch_keeps_its_offset_range() -> None:
    data = BatchBuilder(40, producer_id=1, producer_epoch=0, base_sequence=3).build(last_offset=44)
    (header,) = codec.read_headers(data)
    assert (header.count, header.last_offset, header.last_sequence) == (0, 44, 7)
    assert codec.decode(data) == []


def test_invalid_batches_are_not_built() -> None:
    with pytest.raises(LocalProtocolViolation):
        BatchBuilder().build()
    with pytest.raises(LocalProtocolViolation):
        BatchBuilder(40).append(1, None, None, offset=39)


def test_columns_have_arrow_layout() -> None:
    builder = BatchBuilder(40, compression=Compression.ZSTD)
    builder.append(1000, b"key", None)
    builder.append(1001, None, b"value", [("h", None)])
    builder.append(1002, b"", b"")
    data = builder.build()
    rows = client_consumer.ColumnBuilder()
    assert client_consumer.RecordReader(data, "t", 0, 0).take_columns(10, rows) == 3
    columns = rows.finish()
    assert columns.row_count == 3
    assert memoryview(columns.offsets).cast("q").tolist() == [40, 41, 42]
    assert memoryview(columns.timestamps).cast("q").tolist() == [1000, 1001, 1002]
    assert (columns.key_validity, columns.value_validity) == (b"\x05", b"\x06")
    assert memoryview(columns.key_ends).cast("i").tolist() == [0, 3, 3, 3]
    assert memoryview(columns.value_ends).cast("i").tolist() == [0, 0, 5, 5]
    assert (columns.keys, columns.values) == (b"key", b"value")


def test_read_headers_stops_before_an_incomplete_batch() -> None:
    first, second = filled(2).build(), filled(1).build()
    data = first + second + first[:-1]
    headers = codec.read_headers(data)
    assert [(header.position, header.count) for header in headers] == [(0, 2), (len(first), 1)]
    assert codec.read_headers(data, len(first)) == headers[1:]
    assert len(codec.decode(data)) == 3


def test_invalid_utf8_in_header_keys_is_replaced() -> None:
    builder = BatchBuilder()
    builder.append(1, None, None, [("xx", b"v")])
    data = builder.build().replace(b"xx", b"\xff\xfe")
    assert codec.decode(data)[0].headers == (("\ufffd\ufffd", b"v"),)
