"""Encoding, decoding and validation of batches equal Kafka 3.9.1."""

from pathlib import Path

import pytest

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records import codec
from odradek.records.batch import BatchBuilder, Record
from odradek.records.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_marker,
    read_end_marker,
)
from odradek.records.conversion import down_convert
from odradek.records.message_set import write_message_set
from odradek.records.validation import (
    AppendOrigin,
    AppendRules,
    RecordValidationError,
    ValidatedRecords,
    validate_and_assign_offsets,
)

HERE = Path(__file__).parent
T = 1_700_000_000_000
HEADERS = (("h", b"x"), ("n", None), ("ü", b""))
ROWS = [(T, b"k0", b"v0"), (T + 5, None, b"v1"), (T + 3, b"k2", None), (T + 10, b"", b"a" * 200)]


def lines(name: str) -> list[list[str]]:
    text = (HERE / name).read_text(encoding="utf-8")
    return [line.split(" ") for line in text.splitlines() if not line.startswith("#")]


BATCHES = {name: bytes.fromhex(data) for name, data in lines("batches.txt")}
PLAIN = [name for name in BATCHES if name.startswith("magic")]


def expected(name: str, base_offset: int = 100) -> list[Record]:
    magic, _, kind = name.split("-")
    records = []
    for index, (timestamp, key, value) in enumerate(ROWS):
        if kind == "LogAppendTime":
            timestamp = T + 1000
        if magic == "magic0":
            timestamp = -1
        headers = HEADERS if magic == "magic2" and index == 0 else ()
        records.append(Record(base_offset + index, timestamp, key, value, headers))
    return records


@pytest.mark.parametrize("name", PLAIN)
def test_records_of_kafka_are_decoded(name: str) -> None:
    assert codec.decode(BATCHES[name]) == expected(name)


@pytest.mark.parametrize("name", BATCHES)
def test_crcs_of_kafka_are_valid(name: str) -> None:
    headers = codec.read_headers(BATCHES[name])
    assert headers
    assert all(codec.has_valid_crc(BATCHES[name], header) for header in headers)
    assert headers[-1].end_position == len(BATCHES[name])


def test_uncompressed_batches_are_encoded_equally() -> None:
    for name, append_time in (("CreateTime", None), ("LogAppendTime", T + 1000)):
        builder = BatchBuilder(100, leader_epoch=5, append_time_ms=append_time)
        fill(builder)
        assert builder.build() == BATCHES[f"magic2-none-{name}"]


def test_uncompressed_messages_are_encoded_equally() -> None:
    for name in ("magic0-none-CreateTime", "magic1-none-CreateTime", "magic1-none-LogAppendTime"):
        append_time = T + 1000 if name.endswith("LogAppendTime") else None
        written = write_message_set(expected(name), int(name[5]), Compression.NONE, append_time)
        assert written == BATCHES[name]


def test_producer_fields_are_encoded_equally() -> None:
    builder = BatchBuilder(producer_id=4242, producer_epoch=3, base_sequence=17)
    fill(builder)
    assert builder.build() == BATCHES["idempotent"]
    builder = BatchBuilder(producer_id=4242, producer_epoch=3, base_sequence=2**31 - 2, transactional=True)
    fill(builder)
    assert builder.build() == BATCHES["transactional"]
    assert codec.read_headers(BATCHES["transactional"])[0].last_sequence == 1


def fill(builder: BatchBuilder) -> None:
    for index, (timestamp, key, value) in enumerate(ROWS):
        builder.append(timestamp, key, value, HEADERS if index == 0 else ())


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_transaction_markers_are_encoded_and_decoded_equally(kind: ControlRecordType) -> None:
    golden = BATCHES[f"marker-{kind.name}"]
    marker = EndTransactionMarker(kind, 9)
    built = build_end_marker(
        marker, producer_id=4242, producer_epoch=3, timestamp=T, base_offset=77, leader_epoch=5
    )
    assert built == golden
    header = codec.read_headers(golden)[0]
    assert header.is_control
    assert header.is_transactional
    assert read_end_marker(codec.decode(golden)[0]) == marker


@pytest.mark.parametrize("name", [name for name in BATCHES if name.startswith("down")])
def test_down_conversion_equals_kafka(name: str) -> None:
    target, codec_name, kind = name.split("-")
    source = BATCHES[f"magic2-{codec_name}-{kind}"]
    converted = down_convert(source, 0 if target[-1] == "0" else 1, 101)
    assert codec.decode(converted) == codec.decode(BATCHES[name])
    ours, theirs = codec.read_headers(converted), codec.read_headers(BATCHES[name])
    assert [(h.base_offset, h.attributes, h.max_timestamp) for h in ours] == [
        (h.base_offset, h.attributes, h.max_timestamp) for h in theirs
    ]
    if codec_name == "none":
        assert converted == BATCHES[name]


# Batches that Kafka accepts although readers fail on them are INVALID_RECORD here …
STRICTER = ("non-consecutive-NONE", "producer-negative-epoch", "transactional-without-producer")
STRICTER_PREFIXES = ("negative-record-size-", "zero-record-size-")
# … and batches for which it returns UNKNOWN_SERVER_ERROR get one of these codes.
SPECIFIC_CODES = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)


def validate(options: dict[str, str], data: str) -> ValidatedRecords:
    target = options.get("codec")
    rules = AppendRules(
        timestamp_type=TimestampType(int(options.get("append_time", "0"))),
        timestamp_before_max_ms=int(options.get("before_ms", str(2**63 - 1))),
        timestamp_after_max_ms=int(options.get("after_ms", str(2**63 - 1))),
        compression=None if target is None else Compression(int(target)),
        message_bytes_max=int(options.get("bytes_max", "1048588")),
        compacted="compacted" in options,
    )
    return validate_and_assign_offsets(
        memoryview(bytearray.fromhex("" if data == "-" else data)),
        next_offset=1000,
        leader_epoch=7,
        now_ms=int(options.get("now_ms", str(T + 50))),
        rules=rules,
        origin=AppendOrigin[options.get("origin", "CLIENT")],
        produce_version=int(options.get("produce", "11")),
    )


@pytest.mark.parametrize("case", lines("produced.txt"), ids=lambda case: case[0])
def test_validation_of_produced_records_equals_kafka(case: list[str]) -> None:
    name, option_text, data, code, indices, max_timestamp, crc = case
    options = dict(item.split("=") for item in option_text.split(",")) if option_text != "-" else {}
    expected_code = ErrorCode(int(code))
    if name in STRICTER or name.startswith(STRICTER_PREFIXES):
        expected_code = ErrorCode.INVALID_RECORD
    if expected_code is not ErrorCode.NONE:
        with pytest.raises(BrokerError) as caught:
            validate(options, data)
        if expected_code is ErrorCode.UNKNOWN_SERVER_ERROR:
            assert caught.value.code in SPECIFIC_CODES
        else:
            assert caught.value.code is expected_code
        if indices != "-":
            assert isinstance(caught.value, RecordValidationError)
            assert ",".join(str(index) for index, _ in caught.value.record_errors) == indices
        return
    validated = validate(options, data)
    if max_timestamp != "-":
        assert validated.max_timestamp == int(max_timestamp)
        assert [record.offset for record in codec.decode(validated.data)] == list(
            range(1000, 1000 + validated.record_count)
        )
    if crc != "-":
        assert f"{validated.headers[0].crc:08x}" == crc
