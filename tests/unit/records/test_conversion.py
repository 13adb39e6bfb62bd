"""Messages of magic 0 and 1: decoding, validation, up- and down-conversion."""

import zlib
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.batch import BatchBuilder, Record
from odradek.records.compression import compress
from odradek.records.control_records import ControlRecordType, EndTransactionMarker, build_end_marker
from odradek.records.conversion import down_convert
from odradek.records.message_set import write_message_set
from odradek.records.validation import (
    AppendRules,
    RecordValidationError,
    ValidatedRecords,
    validate_and_assign_offsets,
)

NOW = 1_700_000_000_000
MAGICS: list[Literal[0, 1]] = [0, 1]
CODECS = list(Compression)[:4]
APPEND_TIME = TimestampType.LOG_APPEND_TIME
ROWS = [Record(0, NOW, b"a", b"1"), Record(1, NOW + 7, b"b", None), Record(2, NOW + 3, b"", b"3")]


def message(
    magic: int,
    value: bytes | None,
    *,
    key: bytes | None = b"k",
    bits: int = 0,
    offset: int = 0,
    timestamp: int = NOW,
) -> bytes:
    body = bytes([magic, bits]) + (timestamp.to_bytes(8, "big", signed=True) if magic else b"")
    for field in (key, value):
        body += (-1 if field is None else len(field)).to_bytes(4, "big", signed=True) + (field or b"")
    head = offset.to_bytes(8, "big") + (len(body) + 4).to_bytes(4, "big")
    return head + zlib.crc32(body).to_bytes(4, "big") + body


def wrapper(
    magic: int, content: bytes | None, *, offset: int = 0, bits: int = 1, timestamp: int = NOW
) -> bytes:
    packed = None if content is None else compress(Compression(bits & 7), content, magic=magic)
    return message(magic, packed, key=None, bits=bits, offset=offset, timestamp=timestamp)


def produce(data: bytes, rules: AppendRules | None = None) -> ValidatedRecords:
    buffer = memoryview(bytearray(data))
    chosen = AppendRules() if rules is None else rules
    return validate_and_assign_offsets(
        buffer, next_offset=100, leader_epoch=7, now_ms=NOW, rules=chosen, produce_version=2
    )


def error_of(data: bytes, rules: AppendRules | None = None) -> BrokerError:
    with pytest.raises(BrokerError) as caught:
        produce(data, rules)
    return caught.value


# ---- up ----


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", CODECS)
def test_messages_are_converted_to_one_batch(magic: int, kind: Compression) -> None:
    validated = produce(write_message_set(ROWS, magic, kind))
    (header,) = validated.headers
    assert (header.magic, header.count, header.leader_epoch) == (2, 3, 7)
    assert header.compression is kind
    assert codec.has_valid_crc(validated.data, header)
    times = [-1, -1, -1] if magic == 0 else [NOW, NOW + 7, NOW + 3]
    assert codec.decode(validated.data) == [
        Record(100 + row.offset, time, row.key, row.value) for row, time in zip(ROWS, times, strict=True)
    ]
    assert validated.max_timestamp == max(times)
    assert (validated.first_offset, validated.last_offset, validated.record_count) == (100, 102, 3)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("target", list(Compression))
def test_converted_batch_has_the_topics_compression_type(
    magic: int, kind: Compression, target: Compression
) -> None:
    validated = produce(write_message_set(ROWS, magic, kind), AppendRules(compression=target))
    assert validated.headers[0].compression is target
    assert [record.key for record in codec.decode(validated.data)] == [b"a", b"b", b""]


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", CODECS)
def test_log_append_time_replaces_timestamps(magic: int, kind: Compression) -> None:
    validated = produce(write_message_set(ROWS, magic, kind), AppendRules(timestamp_type=APPEND_TIME))
    assert {record.timestamp for record in codec.decode(validated.data)} == {NOW}
    assert validated.append_time_ms == validated.max_timestamp == NOW


@pytest.mark.parametrize("magic", MAGICS)
def test_offsets_of_produced_messages_are_ignored(magic: int) -> None:
    data = message(magic, b"1", offset=50) + message(magic, b"2", offset=9)
    assert [record.offset for record in codec.decode(produce(data).data)] == [100, 101]


def test_truncated_last_message_is_ignored() -> None:
    assert produce(message(1, b"1") + message(1, b"2")[:-1]).record_count == 1


def test_produce_3_rejects_messages() -> None:
    with pytest.raises(BrokerError, match="INVALID_RECORD"):
        validate_and_assign_offsets(
            message(1, b"1"),
            next_offset=0,
            leader_epoch=0,
            now_ms=NOW,
            rules=AppendRules(),
            produce_version=3,
        )


def test_message_above_max_message_bytes_as_a_batch_is_too_large() -> None:
    data = message(1, b"1")
    assert len(data) < 60
    assert error_of(data, AppendRules(message_bytes_max=60)).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("magic", MAGICS)
def test_message_above_max_message_bytes_is_too_large(magic: int) -> None:
    data = message(magic, bytes(200))
    assert error_of(data, AppendRules(message_bytes_max=150)).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("magic", MAGICS)
def test_wrong_crc_is_corrupt(magic: int) -> None:
    data = bytearray(message(magic, b"value"))
    data[-1] ^= 1
    assert error_of(bytes(data)).code is ErrorCode.CORRUPT_MESSAGE


def test_magic_0_message_below_14_bytes_is_corrupt() -> None:
    assert error_of(bytes(8) + (13).to_bytes(4, "big") + bytes(13)).code is ErrorCode.CORRUPT_MESSAGE
    assert produce(message(0, None, key=None)).record_count == 1


def shortest(magic: int) -> bytes:
    """Fourteen bytes, enough for magic 0 only."""
    body = bytes([magic, 0]) + b"\xff" * 8
    return bytes(8) + (14).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def test_magic_1_message_below_22_bytes_is_corrupt() -> None:
    assert error_of(shortest(1)).code is ErrorCode.CORRUPT_MESSAGE
    assert produce(shortest(0)).record_count == 1


@pytest.mark.parametrize("magic", MAGICS)
def test_field_beyond_the_message_is_invalid(magic: int) -> None:
    data = bytearray(message(magic, b"value", key=b"key"))
    data[21 + 8 * magic] = 0x7F
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    assert error_of(bytes(data)).code is ErrorCode.INVALID_RECORD
    data[21 + 8 * magic] = 3 + 4 + 3
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    assert error_of(bytes(data)).code is ErrorCode.INVALID_RECORD


def test_mixed_magics_are_rejected() -> None:
    assert error_of(message(1, b"1") + message(0, b"2")).code is ErrorCode.INVALID_RECORD
    builder = BatchBuilder()
    builder.append(NOW, b"k", b"v")
    assert error_of(message(1, b"1") + builder.build()).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", CODECS)
def test_compacted_topic_rejects_messages_without_keys(magic: int, kind: Compression) -> None:
    rows = [ROWS[0], ROWS[1]._replace(key=None), ROWS[2]]
    error = error_of(write_message_set(rows, magic, kind), AppendRules(compacted=True))
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordValidationError)
    # Uncompressed messages are a set of one each.
    assert [index for index, _ in error.record_errors] == [1 if kind else 0]


@pytest.mark.parametrize("kind", CODECS)
def test_timestamps_of_messages_must_be_in_range(kind: Compression) -> None:
    rules = AppendRules(timestamp_after_max_ms=5)
    assert error_of(write_message_set(ROWS, 1, kind), rules).code is ErrorCode.INVALID_TIMESTAMP
    assert produce(write_message_set(ROWS, 0, kind), rules).record_count == 3


def test_timestamp_before_the_epoch_is_rejected() -> None:
    assert error_of(message(1, b"v", timestamp=-7)).code is ErrorCode.INVALID_TIMESTAMP
    assert produce(message(1, b"v", timestamp=-1)).max_timestamp == -1


@pytest.mark.parametrize("kind", CODECS)
def test_log_append_time_of_a_client_is_rejected(kind: Compression) -> None:
    data = write_message_set(ROWS, 1, kind, NOW)
    assert error_of(data, AppendRules(timestamp_type=APPEND_TIME)).code is ErrorCode.INVALID_TIMESTAMP


# ---- wrappers ----


def inner(magic: int, count: int = 3) -> bytes:
    return b"".join(message(magic, b"v", offset=index, timestamp=NOW + index) for index in range(count))


def read(data: bytes) -> list[Record]:
    return codec.decode(data)


def test_inner_offsets_of_magic_1_are_relative() -> None:
    assert [record.offset for record in read(wrapper(1, inner(1), offset=50))] == [48, 49, 50]


def test_inner_offsets_of_magic_0_are_absolute() -> None:
    assert [record.offset for record in read(wrapper(0, inner(0), offset=50))] == [0, 1, 2]


def test_wrapper_offset_0_leaves_inner_offsets_unchanged() -> None:
    assert [record.offset for record in read(wrapper(1, inner(1), offset=0))] == [0, 1, 2]


def test_wrapper_offset_below_its_last_message_is_invalid() -> None:
    assert error_of(wrapper(1, inner(1), offset=1)).code is ErrorCode.INVALID_RECORD


def test_wrapper_with_create_time_keeps_inner_timestamps() -> None:
    assert [record.timestamp for record in read(wrapper(1, inner(1), timestamp=5))] == [NOW, NOW + 1, NOW + 2]


def test_wrapper_with_log_append_time_sets_inner_timestamps() -> None:
    assert {record.timestamp for record in read(wrapper(1, inner(1), bits=1 | 8, timestamp=5))} == {5}


@pytest.mark.parametrize("magic", MAGICS)
def test_malformed_wrappers_are_rejected(magic: int) -> None:
    nested = wrapper(magic, inner(magic))
    damaged = bytearray(inner(magic))
    damaged[-1] ^= 1
    for data, code in (
        (wrapper(magic, None), ErrorCode.INVALID_RECORD),
        (wrapper(magic, b""), ErrorCode.INVALID_RECORD),
        (wrapper(magic, nested), ErrorCode.INVALID_RECORD),
        (wrapper(magic, inner(1 - magic)), ErrorCode.INVALID_RECORD),
        (wrapper(magic, message(2, b"v")), ErrorCode.INVALID_RECORD),
        (wrapper(magic, shortest(1)), ErrorCode.CORRUPT_MESSAGE),
        (wrapper(magic, bytes(damaged)), ErrorCode.CORRUPT_MESSAGE),
        (wrapper(magic, bytes(8) + b"\0\0\0\5" + bytes(40)), ErrorCode.CORRUPT_MESSAGE),
        (wrapper(magic, inner(magic), bits=4), ErrorCode.INVALID_RECORD),
        (message(magic, b"no stream", bits=1), ErrorCode.INVALID_RECORD),
        (message(magic, b"v", bits=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (nested + nested, ErrorCode.INVALID_RECORD),
        (message(magic, b"v") + nested, ErrorCode.INVALID_RECORD),
    ):
        assert error_of(data).code is code


@pytest.mark.parametrize("magic", MAGICS)
def test_truncated_inner_message_is_ignored(magic: int) -> None:
    assert produce(wrapper(magic, inner(magic)[:-1])).record_count == 2


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", CODECS[1:])
def test_decompression_bomb_in_a_wrapper_is_too_large(magic: int, kind: Compression) -> None:
    data = wrapper(magic, message(magic, bytes(3_000_000)), bits=kind)
    rules = AppendRules(decompressed_bytes_max=1_000_000)
    assert error_of(data, rules).code is ErrorCode.MESSAGE_TOO_LARGE


# ---- down ----


def batch(kind: Compression = Compression.NONE, **fields: Any) -> bytes:
    builder = BatchBuilder(100, compression=kind, **fields)
    for row in ROWS:
        builder.append(row.timestamp, row.key, row.value, [("header", b"lost")])
    return builder.build()


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("kind", CODECS)
def test_down_conversion_keeps_offsets_keys_and_values(magic: Literal[0, 1], kind: Compression) -> None:
    converted = down_convert(batch(kind), magic, 0)
    headers = codec.read_headers(converted)
    assert {header.magic for header in headers} == {magic}
    assert len(headers) == (1 if kind else 3)
    assert all(codec.has_valid_crc(converted, header) for header in headers)
    times = [-1, -1, -1] if magic == 0 else [row.timestamp for row in ROWS]
    assert codec.decode(converted) == [
        Record(100 + row.offset, time, row.key, row.value) for row, time in zip(ROWS, times, strict=True)
    ]


@pytest.mark.parametrize("kind", CODECS)
def test_down_conversion_keeps_log_append_time(kind: Compression) -> None:
    converted = down_convert(batch(kind, append_time_ms=NOW + 99), 1, 0)
    assert all(header.timestamp_type is APPEND_TIME for header in codec.read_headers(converted))
    assert {record.timestamp for record in codec.decode(converted)} == {NOW + 99}


def test_down_converted_wrapper_has_the_max_timestamp() -> None:
    (header,) = codec.read_headers(down_convert(batch(Compression.GZIP), 1, 0))
    assert header.max_timestamp == NOW + 7
    assert header.base_offset == 102


@pytest.mark.parametrize("magic", MAGICS)
def test_records_below_the_fetch_offset_are_dropped_unless_compressed(magic: Literal[0, 1]) -> None:
    assert [record.offset for record in codec.decode(down_convert(batch(), magic, 101))] == [101, 102]
    assert len(codec.decode(down_convert(batch(Compression.GZIP), magic, 101))) == 3
    assert down_convert(batch(), magic, 103) == b""


def test_down_conversion_drops_control_batches() -> None:
    marker = build_end_marker(
        EndTransactionMarker(ControlRecordType.ABORT, 1), producer_id=1, producer_epoch=0, timestamp=NOW
    )
    assert down_convert(marker + batch(), 1, 0) == down_convert(batch(), 1, 0)


def test_zstd_cannot_be_down_converted() -> None:
    with pytest.raises(BrokerError, match="UNSUPPORTED_COMPRESSION_TYPE"):
        down_convert(batch(Compression.ZSTD), 1, 0)


def test_messages_of_a_supported_magic_are_copied() -> None:
    data = write_message_set(ROWS, 0, Compression.GZIP)
    assert down_convert(data, 1, 0) == data


rows = st.lists(st.tuples(st.integers(-1, 2**42), st.none() | st.binary(max_size=9)), min_size=1, max_size=6)


@given(rows, st.sampled_from(CODECS), st.sampled_from(MAGICS))
def test_down_and_up_conversion_round_trip(given_rows: Any, kind: Compression, magic: Literal[0, 1]) -> None:
    builder = BatchBuilder(100, compression=kind)
    for timestamp, value in given_rows:
        builder.append(timestamp, value, value)
    data = builder.build()
    again = produce(down_convert(data, magic, 0))
    before = codec.decode(data)
    if magic == 0:
        before = [record._replace(timestamp=-1) for record in before]
    assert codec.decode(again.data) == before
