"""Validation of produced records, with both codec implementations."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_codecs import IMPLEMENTATIONS, PURE

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.append_rules import (
    EVENT_LOOP_LIMITS,
    NO_LIMITS,
    WORKER_LIMITS,
    WorkLimitExceeded,
    WorkLimits,
)
from odradek.records.batch import BatchBuilder, build_batch
from odradek.records.compression import compress
from odradek.records.control_records import ControlRecordType, EndTransactionMarker, build_end_marker
from odradek.records.layout import INT64_MAX, RECORD_ERRORS_MAX, BatchHeader
from odradek.records.message_set import write_message_set
from odradek.records.validation import (
    AppendOrigin,
    AppendRules,
    RecordValidationError,
    ValidatedRecords,
    reassign_offsets,
    validate_and_assign_offsets,
    validate_replicated,
)

NOW = 1_700_000_000_000
CODECS = list(Compression)
APPEND_TIME = TimestampType.LOG_APPEND_TIME


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "python"], autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    for name in (
        "validate_in_place",
        "crc32c",
        "assign_offset",
        "read_headers",
        "set_max_timestamp",
        "scan_records",
        "BatchBuffer",
    ):
        monkeypatch.setattr(codec, name, getattr(request.param, name))
    param: SimpleNamespace = request.param
    return param


def batch(count: int = 3, *, keyless: bool = False, timestamp: int = NOW, **fields: Any) -> bytes:
    builder = BatchBuilder(**fields)
    for index in range(count):
        builder.append(timestamp + index, None if keyless else b"k", b"value", [("h", b"x")])
    return builder.build()


def changed(data: bytes, position: int, value: int, size: int, *, keep_crc: bool = False) -> bytes:
    out = bytearray(data)
    out[position : position + size] = value.to_bytes(size, "big", signed=value < 0)
    if not keep_crc:
        out[17:21] = PURE.crc32c(out[21:]).to_bytes(4, "big")
    return bytes(out)


def enclosed(records: bytes, count: int, kind: Compression) -> bytes:
    header = BatchHeader(0, 0, 0, -1, 2, 0, kind, count - 1, NOW, NOW, -1, -1, -1, count)
    return build_batch(header, compress(kind, records))


def validate(data: bytes, rules: AppendRules | None = None, **options: Any) -> ValidatedRecords:
    given_rules = AppendRules() if rules is None else rules
    return validate_and_assign_offsets(
        memoryview(bytearray(data)),
        next_offset=100,
        leader_epoch=7,
        now_ms=NOW,
        rules=given_rules,
        **options,
    )


def error_of(data: bytes, rules: AppendRules | None = None, **options: Any) -> BrokerError:
    buffer = bytearray(data)
    given_rules = AppendRules() if rules is None else rules
    with pytest.raises(BrokerError) as caught:
        validate_and_assign_offsets(
            memoryview(buffer),
            next_offset=100,
            leader_epoch=7,
            now_ms=NOW,
            rules=given_rules,
            **options,
        )
    assert buffer == data
    return caught.value


# ---- what is accepted ----


def test_uncompressed_batch_is_patched_in_its_buffer() -> None:
    buffer = memoryview(bytearray(batch()))
    validated = validate_and_assign_offsets(
        buffer, next_offset=100, leader_epoch=7, now_ms=NOW, rules=AppendRules()
    )
    assert validated.data is buffer
    assert [record.offset for record in codec.decode(buffer)] == [100, 101, 102]
    (header,) = validated.headers
    assert header == codec.read_headers(buffer)[0]
    assert (header.base_offset, header.leader_epoch, header.count) == (100, 7, 3)
    assert codec.has_valid_crc(buffer, header)


@pytest.mark.parametrize("kind", CODECS)
def test_result_summarizes_the_batch(kind: Compression) -> None:
    validated = validate(batch(compression=kind))
    assert (validated.first_offset, validated.last_offset, validated.record_count) == (100, 102, 3)
    assert validated.max_timestamp == NOW + 2
    assert validated.offset_of_max_timestamp == 102
    assert validated.append_time_ms == -1


def test_offset_of_max_timestamp_is_the_last_offset_of_the_batch() -> None:
    builder = BatchBuilder()
    for timestamp in (NOW, NOW + 50, NOW + 10):
        builder.append(timestamp, b"k", b"v")
    validated = validate(builder.build())
    assert (validated.max_timestamp, validated.offset_of_max_timestamp) == (NOW + 50, 102)


@pytest.mark.parametrize("kind", CODECS)
def test_records_without_timestamps_have_no_offset_of_max_timestamp(kind: Compression) -> None:
    builder = BatchBuilder(compression=kind)
    builder.append(-1, b"k", b"v")
    rules = AppendRules(timestamp_before_max_ms=1, timestamp_after_max_ms=1)
    validated = validate(builder.build(), rules)
    assert (validated.max_timestamp, validated.offset_of_max_timestamp) == (-1, -1)


@pytest.mark.parametrize("kind", CODECS)
def test_read_only_buffer_is_copied(kind: Compression) -> None:
    data = batch(compression=kind)
    validated = validate_and_assign_offsets(
        memoryview(data), next_offset=100, leader_epoch=7, now_ms=NOW, rules=AppendRules()
    )
    assert codec.decode(validated.data)[0].offset == 100
    assert codec.decode(data)[0].offset == 0


@given(
    st.sampled_from(CODECS),
    st.booleans(),
    st.lists(st.tuples(st.integers(-1, NOW), st.none() | st.binary(max_size=9)), min_size=1, max_size=6),
)
def test_validation_in_place_equals_validation_with_conversion(
    kind: Compression, append_time: bool, rows: Any
) -> None:
    builder = BatchBuilder(producer_id=3, producer_epoch=1, base_sequence=4)
    for timestamp, value in rows:
        builder.append(timestamp, b"k", value)
    rules = AppendRules(timestamp_type=TimestampType(append_time))
    quick = validate(builder.build(), rules)
    # Bytes after the batch make the buffer unusual; they are cut off.
    long = validate(builder.build() + b"tail", rules)
    assert bytes(quick.data) == bytes(long.data)
    assert quick.headers == long.headers
    other = validate(
        builder.build(), AppendRules(timestamp_type=TimestampType(append_time), compression=kind)
    )
    assert codec.decode(other.data) == codec.decode(quick.data)


@pytest.mark.parametrize("kind", CODECS)
def test_trailing_bytes_are_dropped(kind: Compression) -> None:
    data = batch(compression=kind)
    assert len(validate(data + data[:30]).data) == len(data)


# ---- the outside of a batch ----


def test_size_below_the_smallest_message_is_corrupt() -> None:
    assert error_of(changed(batch(), 8, 13, 4)).code is ErrorCode.CORRUPT_MESSAGE
    assert error_of(changed(batch(), 8, -1, 4)).code is ErrorCode.CORRUPT_MESSAGE


def test_batch_smaller_than_its_header_is_corrupt() -> None:
    data = changed(batch()[:60], 8, 48, 4, keep_crc=True)
    assert error_of(data).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [3, 9, 0x80, 0xFF])
def test_unknown_magic_is_corrupt(magic: int) -> None:
    assert error_of(changed(batch(), 16, magic, 1)).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("kind", CODECS)
def test_wrong_crc_is_corrupt(kind: Compression) -> None:
    data = batch(compression=kind)
    assert error_of(data[:-1] + bytes([data[-1] ^ 1])).code is ErrorCode.CORRUPT_MESSAGE


def test_crc_is_checked_before_the_records() -> None:
    data = batch()[:-20] + bytes([0xFF]) * 20
    assert error_of(data).code is ErrorCode.CORRUPT_MESSAGE


def test_produced_batch_must_have_base_offset_0() -> None:
    data = changed(batch(), 0, 5, 8, keep_crc=True)
    assert error_of(data).code is ErrorCode.INVALID_RECORD
    assert validate(data, origin=AppendOrigin.COORDINATOR).first_offset == 100


@pytest.mark.parametrize("kind", CODECS)
def test_batch_above_max_message_bytes_is_too_large(kind: Compression) -> None:
    data = batch(compression=kind)
    assert error_of(data, AppendRules(message_bytes_max=len(data) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(data, AppendRules(message_bytes_max=len(data))).record_count == 3


def test_size_is_checked_before_the_crc() -> None:
    data = changed(batch(), 17, 1, 4, keep_crc=True)
    assert error_of(data, AppendRules(message_bytes_max=70)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_above_max_message_bytes_after_conversion_is_too_large() -> None:
    builder = BatchBuilder(compression=Compression.GZIP)
    builder.append(NOW, b"k", bytes(5000))
    rules = AppendRules(compression=Compression.NONE, message_bytes_max=1000)
    assert len(builder.build()) < 1000
    assert error_of(builder.build(), rules).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_unknown_codec_id_is_unsupported(codec_id: int) -> None:
    assert error_of(changed(batch(), 21, codec_id, 2)).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# ---- what a request may carry ----


def test_produce_3_needs_a_batch() -> None:
    assert error_of(b"", produce_version=3).code is ErrorCode.INVALID_RECORD
    assert error_of(batch()[:50], produce_version=3).code is ErrorCode.INVALID_RECORD


def test_produce_below_3_may_be_empty() -> None:
    validated = validate(b"", produce_version=2)
    assert (validated.headers, validated.first_offset, validated.record_count) == ([], -1, 0)


@pytest.mark.parametrize("version", [2, 3, 11])
def test_two_batches_are_rejected(version: int) -> None:
    assert error_of(batch() + batch(), produce_version=version).code is ErrorCode.INVALID_RECORD


def test_zstd_needs_produce_7() -> None:
    data = batch(compression=Compression.ZSTD)
    assert error_of(data, produce_version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(data, produce_version=7).record_count == 3


# ---- what a client may write ----


@pytest.mark.parametrize("kind", CODECS)
def test_control_batch_of_a_client_is_rejected(kind: Compression) -> None:
    assert error_of(batch(control=True, compression=kind)).code is ErrorCode.INVALID_RECORD


def marker() -> bytes:
    return build_end_marker(
        EndTransactionMarker(ControlRecordType.COMMIT, 3),
        producer_id=5,
        producer_epoch=1,
        timestamp=NOW,
        base_offset=55,
    )


@pytest.mark.parametrize("origin", [AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION])
@pytest.mark.parametrize("target", [None, *CODECS])
def test_coordinator_and_replication_may_write_uncompressed_markers(
    origin: AppendOrigin, target: Compression | None
) -> None:
    validated = validate(marker(), AppendRules(compression=target, compacted=True), origin=origin)
    (header,) = validated.headers
    assert header.is_control
    assert header.codec_id == 0
    assert header.base_offset == 100


def test_producer_id_needs_a_sequence() -> None:
    data = batch(producer_id=5, producer_epoch=0, base_sequence=-1)
    assert error_of(data).code is ErrorCode.INVALID_RECORD
    assert validate(data, origin=AppendOrigin.COORDINATOR).record_count == 3


def test_producer_id_needs_an_epoch() -> None:
    assert error_of(batch(producer_id=5, base_sequence=0)).code is ErrorCode.INVALID_RECORD


def test_transactional_batch_needs_a_producer_id() -> None:
    assert error_of(batch(transactional=True)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("target", [None, *CODECS])
def test_producer_fields_are_kept(transactional: bool, target: Compression | None) -> None:
    data = batch(producer_id=5, producer_epoch=2, base_sequence=9, transactional=transactional)
    header = validate(data, AppendRules(compression=target)).headers[0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 9)
    assert header.is_transactional is transactional
    assert header.last_sequence == 11


# ---- records against their header ----


@pytest.mark.parametrize(
    ("position", "value"), [(57, 0), (57, -3), (57, 2), (57, 4), (23, -1), (23, 9), (23, 1)]
)
@pytest.mark.parametrize("kind", [Compression.NONE, Compression.LZ4])
def test_count_and_last_offset_delta_must_match(position: int, value: int, kind: Compression) -> None:
    assert error_of(changed(batch(compression=kind), position, value, 4)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("count", [2, 4])
def test_record_count_must_match(kind: Compression, count: int) -> None:
    data = changed(changed(batch(compression=kind), 57, count, 4), 23, count - 1, 4)
    assert error_of(data).code is ErrorCode.INVALID_RECORD


MALFORMED = {
    "size larger than the rest": b"\x40\0\0\0\2k\2v\0",
    "size smaller than the fields": b"\x0c\0\0\0\2k\2v\0",
    "negative size": b"\x01\0\0\0\2k\2v\0",
    "no size": b"",
    "unending size": b"\xff\xff\xff\xff\xff\xff",
    "number longer than five bytes": b"\x16\0\0\x80\x80\x80\x80\x80\2\2v\0",
    "number longer than ten bytes": b"\x28\0" + b"\x80" * 10 + b"\0\0\2k\2v\0",
    "key past the end": b"\x10\0\0\0\x50k\2v\0",
    "value past the end": b"\x10\0\0\0\2k\x50v\0",
    "negative header count": b"\x10\0\0\0\2k\2v\1",
    "more headers than bytes": b"\x10\0\0\0\2k\2v\x7e",
    "header without key": b"\x14\0\0\0\2k\2v\2\1\1",
    "header key past the end": b"\x14\0\0\0\2k\2v\2\x7e\1",
    "header value past the end": b"\x14\0\0\0\2k\2v\2\0\x7e",
    "bytes after the last record": b"\x10\0\0\0\2k\2v\0\0",
    "offset delta that is not 0": b"\x10\0\0\2\2k\2v\0",
    "negative offset delta": b"\x10\0\0\1\2k\2v\0",
}


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("fault", MALFORMED)
def test_malformed_record_is_invalid(fault: str, kind: Compression) -> None:
    assert error_of(enclosed(MALFORMED[fault], 1, kind)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("kind", CODECS)
def test_unusual_valid_records_are_accepted(kind: Compression) -> None:
    longer_numbers = b"\x9a\0\x7f\x80\0\x80\0\xfe\xff\xff\xff\x0f\2v\0"
    for record in (b"\x10\0\0\0\2k\2v\0", b"\x0c\0\0\0\1\1\0", b"\x10\x7f\0\0\2k\2v\0"):
        assert validate(enclosed(record, 1, kind)).record_count == 1
    assert error_of(enclosed(longer_numbers, 1, kind)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("kind", CODECS[1:])
def test_malformed_compressed_records_are_invalid(kind: Compression) -> None:
    header = BatchHeader(0, 0, 0, -1, 2, 0, kind, 0, NOW, NOW, -1, -1, -1, 1)
    for content in (b"", b"this is no stream", compress(kind, bytes(500))[:-5]):
        assert error_of(build_batch(header, content)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("kind", CODECS[1:])
def test_header_errors_take_precedence_over_compression_errors(kind: Compression) -> None:
    header = BatchHeader(0, 0, 0, -1, 2, 0, kind, 0, NOW, NOW, -1, -1, -1, 1)
    data = build_batch(header, b"this is no stream")
    assert error_of(changed(data, 17, 1, 4, keep_crc=True)).code is ErrorCode.CORRUPT_MESSAGE
    assert "control" in str(error_of(changed(data, 21, 0x20 | kind, 2)))
    assert "base offset of a produced batch must be 0" in str(error_of(changed(data, 0, 5, 8, keep_crc=True)))
    assert "decompressed" in str(error_of(data))


@pytest.mark.parametrize("kind", CODECS[1:])
def test_decompression_bomb_is_too_large(kind: Compression) -> None:
    builder = BatchBuilder(compression=kind)
    builder.append(NOW, b"k", bytes(3_000_000))
    data = builder.build()
    assert len(data) < 400_000
    rules = AppendRules(decompressed_bytes_max=2_000_000)
    assert error_of(data, rules).code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(data, AppendRules(decompressed_bytes_max=4_000_000)).record_count == 1


# ---- rules of the topic ----


@pytest.mark.parametrize("kind", CODECS)
def test_compacted_topic_rejects_records_without_keys(kind: Compression) -> None:
    builder = BatchBuilder(compression=kind)
    for key in (b"k", None, b"", None):
        builder.append(NOW, key, b"v")
    error = error_of(builder.build(), AppendRules(compacted=True))
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert validate(builder.build()).record_count == 4


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize(
    ("timestamp", "fits"), [(NOW - 11, False), (NOW - 10, True), (NOW + 5, True), (NOW + 6, False)]
)
def test_timestamps_must_be_in_range(kind: Compression, timestamp: int, fits: bool) -> None:
    rules = AppendRules(timestamp_before_max_ms=10, timestamp_after_max_ms=5)
    builder = BatchBuilder(compression=kind)
    builder.append(NOW, b"k", b"v")
    builder.append(timestamp, b"k", b"v")
    if fits:
        assert validate(builder.build(), rules).record_count == 2
        return
    error = error_of(builder.build(), rules)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [1]


def test_one_bad_timestamp_makes_the_error_invalid_timestamp() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"v")
    builder.append(NOW - 100, b"k", b"v")
    error = error_of(builder.build(), AppendRules(compacted=True, timestamp_before_max_ms=10))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [0, 1]


@pytest.mark.parametrize("kind", CODECS)
def test_log_append_time_replaces_timestamps_without_range_check(kind: Compression) -> None:
    rules = AppendRules(timestamp_type=APPEND_TIME, timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    validated = validate(batch(timestamp=NOW - 1000, compression=kind), rules)
    assert validated.append_time_ms == validated.max_timestamp == NOW
    assert validated.offset_of_max_timestamp == 102
    (header,) = validated.headers
    assert header.timestamp_type is APPEND_TIME
    assert codec.has_valid_crc(validated.data, header)
    assert {record.timestamp for record in codec.decode(validated.data)} == {NOW}


@pytest.mark.parametrize("kind", CODECS)
def test_wrong_max_timestamp_is_corrected(kind: Compression) -> None:
    validated = validate(changed(batch(compression=kind), 35, NOW + 9999, 8))
    assert validated.max_timestamp == validated.headers[0].max_timestamp == NOW + 2
    assert codec.has_valid_crc(validated.data, validated.headers[0])


@pytest.mark.parametrize("kind", CODECS)
def test_log_append_time_of_a_client_is_rejected_on_a_log_append_time_topic(kind: Compression) -> None:
    data = batch(append_time_ms=NOW, compression=kind)
    error = error_of(data, AppendRules(timestamp_type=APPEND_TIME))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [0, 1, 2]
    error = error_of(batch(append_time_ms=-1, compression=kind))
    assert error.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("kind", CODECS)
def test_log_append_time_of_a_client_is_cleared_on_a_create_time_topic(kind: Compression) -> None:
    validated = validate(batch(append_time_ms=NOW - 5, compression=kind))
    assert validated.headers[0].timestamp_type is TimestampType.CREATE_TIME
    assert validated.headers[0].max_timestamp == NOW - 5
    assert codec.has_valid_crc(validated.data, validated.headers[0])


def test_missing_keys_are_reported_in_a_batch_with_log_append_time() -> None:
    error = error_of(
        batch(append_time_ms=NOW, keyless=True), AppendRules(timestamp_type=APPEND_TIME, compacted=True)
    )
    assert error.code is ErrorCode.INVALID_RECORD


def test_reported_record_errors_are_limited() -> None:
    count = RECORD_ERRORS_MAX + 10
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(NOW, None, None)
    error = error_of(builder.build(), AppendRules(compacted=True))
    assert isinstance(error, RecordValidationError)
    assert len(error.record_errors) == RECORD_ERRORS_MAX


def test_timestamp_range_saturates_at_int64() -> None:
    builder = BatchBuilder()
    builder.append(INT64_MAX, b"k", b"v")
    assert validate(builder.build()).max_timestamp == INT64_MAX
    error = error_of(builder.build(), AppendRules(timestamp_after_max_ms=5))
    assert error.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_batch_is_recompressed_to_the_topics_compression_type(
    source: Compression, target: Compression
) -> None:
    validated = validate(batch(compression=source), AppendRules(compression=target))
    (header,) = validated.headers
    assert header.compression is target
    assert codec.has_valid_crc(validated.data, header)
    assert [(r.offset, r.timestamp, r.headers) for r in codec.decode(validated.data)] == [
        (100 + index, NOW + index, (("h", b"x"),)) for index in range(3)
    ]


@pytest.mark.parametrize(
    ("target", "level"),
    [
        (Compression.GZIP, 1),
        (Compression.GZIP, -1),
        (Compression.LZ4, 12),
        (Compression.ZSTD, -3),
        (Compression.ZSTD, 19),
    ],
)
def test_topics_compression_level_is_used(target: Compression, level: int) -> None:
    validated = validate(batch(), AppendRules(compression=target, compression_level=level))
    assert len(codec.decode(validated.data)) == 3


# ---- replicated data ----


def test_follower_accepts_batches_unchanged() -> None:
    data = batch(base_offset=10, leader_epoch=3) + batch(base_offset=13, leader_epoch=4)
    headers = validate_replicated(data, leader_epoch=4)
    assert [(header.base_offset, header.position) for header in headers] == [(10, 0), (13, len(data) // 2)]


def test_follower_stops_before_batches_of_a_newer_leader_epoch() -> None:
    data = batch(base_offset=10, leader_epoch=3) + batch(base_offset=13, leader_epoch=5)
    assert len(validate_replicated(data, leader_epoch=4)) == 1


def test_follower_rejects_corrupt_and_unordered_batches() -> None:
    with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
        validate_replicated(changed(batch(), 40, 1, 1, keep_crc=True), leader_epoch=4)
    with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
        validate_replicated(batch(base_offset=10) + batch(base_offset=12), leader_epoch=4)


# Work that is too much for where it is done.


@pytest.mark.parametrize("kind", CODECS[1:])
def test_batch_above_the_work_limits_is_left_unchanged(kind: Compression) -> None:
    data = bytearray(enclosed_record(bytes(EVENT_LOOP_LIMITS.decompressed_bytes_max), kind))
    before = bytes(data)
    with pytest.raises(WorkLimitExceeded):
        validate_in_buffer(data, limits=EVENT_LOOP_LIMITS)
    assert bytes(data) == before
    assert validate_in_buffer(data, limits=WORKER_LIMITS).record_count == 1


def test_batch_above_the_decompression_config_is_rejected_under_any_work_limits() -> None:
    data = enclosed_record(bytes(5000), Compression.ZSTD)
    for limits in (EVENT_LOOP_LIMITS, WORKER_LIMITS, NO_LIMITS):
        with pytest.raises(BrokerError) as caught:
            validate(data, AppendRules(decompressed_bytes_max=4000), limits=limits)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("rules", [AppendRules(), AppendRules(compression=Compression.LZ4)])
def test_size_alone_can_exceed_the_work_limits(rules: AppendRules) -> None:
    data = batch(50)
    with pytest.raises(WorkLimitExceeded):
        validate(data, rules, limits=WorkLimits(len(data) - 1, 1 << 20, 1 << 20))
    worked = WorkLimits(1 << 20, len(data) - 1, 1 << 20)
    if rules.compression is None:
        assert validate(data, rules, limits=worked).record_count == 50
    else:
        with pytest.raises(WorkLimitExceeded):
            validate(data, rules, limits=worked)


def test_messages_count_against_the_conversion_limit() -> None:
    records = codec.decode(batch(50))
    data = write_message_set(records, 1, Compression.NONE, None)
    with pytest.raises(WorkLimitExceeded):
        validate(data, produce_version=2, limits=WorkLimits(1 << 20, len(data) - 1, 1 << 20))
    assert (
        validate(data, produce_version=2, limits=WorkLimits(1 << 20, len(data), 1 << 20)).record_count == 50
    )


@given(
    kind=st.sampled_from(CODECS),
    target=st.sampled_from([None, *CODECS]),
    stamps=st.booleans(),
    count=st.integers(1, 5),
    offset=st.integers(0, 2**40),
    leader_epoch=st.integers(0, 1000),
)
def test_reassigned_batch_equals_one_validated_at_that_offset(
    kind: Compression, target: Compression | None, stamps: bool, count: int, offset: int, leader_epoch: int
) -> None:
    rules = AppendRules(
        compression=target, timestamp_type=APPEND_TIME if stamps else TimestampType.CREATE_TIME
    )
    data = batch(count, compression=kind)

    def accepted(next_offset: int, epoch: int) -> ValidatedRecords:
        return validate_and_assign_offsets(
            memoryview(bytearray(data)), next_offset=next_offset, leader_epoch=epoch, now_ms=NOW, rules=rules
        )

    direct, moved = accepted(offset, leader_epoch), reassign_offsets(accepted(0, 3), offset, leader_epoch)
    assert bytes(moved.data) == bytes(direct.data)
    names = [name for name in dir(ValidatedRecords) if not name.startswith("_")]
    assert "record_count" in names
    for name in names:
        if name != "data":
            assert getattr(moved, name) == getattr(direct, name), name


def enclosed_record(value: bytes, kind: Compression) -> bytes:
    builder = BatchBuilder(compression=kind)
    builder.append(NOW, b"k", value)
    return builder.build()


def validate_in_buffer(data: bytearray, **options: Any) -> ValidatedRecords:
    rules = AppendRules(message_bytes_max=1 << 30)
    return validate_and_assign_offsets(
        data, next_offset=100, leader_epoch=7, now_ms=NOW, rules=rules, **options
    )
