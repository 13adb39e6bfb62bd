"""Batches and verdicts of Kafka 3.9.1 itself: ours must read, write and judge alike."""

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
def test_kafkas_records_are_read(name: str) -> None:
    assert codec.decode(BATCHES[name]) == expected(name)


@pytest.mark.parametrize("name", BATCHES)
def test_kafkas_checksums_hold(name: str) -> None:
    headers = codec.read_headers(BATCHES[name])
    assert headers
    assert all(codec.has_valid_crc(BATCHES[name], header) for header in headers)
    assert headers[-1].end_position == len(BATCHES[name])


def test_uncompressed_batches_are_written_byte_for_byte_alike() -> None:
    for name, append_time in (("CreateTime", None), ("LogAppendTime", T + 1000)):
        builder = BatchBuilder(100, leader_epoch=5, append_time_ms=append_time)
        fill(builder)
        assert builder.build() == BATCHES[f"magic2-none-{name}"]


def test_uncompressed_messages_are_written_byte_for_byte_alike() -> None:
    for name in ("magic0-none-CreateTime", "magic1-none-CreateTime", "magic1-none-LogAppendTime"):
        append_time = T + 1000 if name.endswith("LogAppendTime") else None
        written = write_message_set(expected(name), int(name[5]), Compression.NONE, append_time)
        assert written == BATCHES[name]


def test_producer_fields_are_written_alike() -> None:
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
def test_transaction_markers_are_written_and_read_alike(kind: ControlRecordType) -> None:
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
def test_down_conversion_gives_what_kafka_gives(name: str) -> None:
    target, codec_name, kind = name.split("-")
    source = BATCHES[f"magic2-{codec_name}-{kind}"]
    made = down_convert(source, int(target[-1]), 101)
    assert codec.decode(made) == codec.decode(BATCHES[name])
    ours, theirs = codec.read_headers(made), codec.read_headers(BATCHES[name])
    assert [(h.base_offset, h.attributes, h.max_timestamp) for h in ours] == [
        (h.base_offset, h.attributes, h.max_timestamp) for h in theirs
    ]
    if codec_name == "none":
        assert made == BATCHES[name]


# What Kafka lets into the log for readers to stumble over is INVALID_RECORD here …
STRICTER = ("non-consecutive-NONE", "producer-negative-epoch", "transactional-without-producer")
STRICTER_PREFIXES = ("negative-record-size-", "zero-record-size-")
# … and what it answers with UNKNOWN_SERVER_ERROR gets one of these.
CLEARER = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)


def judge(given: dict[str, str], data: str) -> ValidatedRecords:
    target = given.get("codec")
    rules = AppendRules(
        timestamp_type=TimestampType(int(given.get("append_time", "0"))),
        timestamp_before_max_ms=int(given.get("before_ms", str(2**63 - 1))),
        timestamp_after_max_ms=int(given.get("after_ms", str(2**63 - 1))),
        compression=None if target is None else Compression(int(target)),
        message_bytes_max=int(given.get("bytes_max", "1048588")),
        compacted="compacted" in given,
    )
    return validate_and_assign_offsets(
        memoryview(bytearray.fromhex("" if data == "-" else data)),
        next_offset=1000,
        leader_epoch=7,
        now_ms=int(given.get("now_ms", str(T + 50))),
        rules=rules,
        origin=AppendOrigin[given.get("origin", "CLIENT")],
        produce_version=int(given.get("produce", "11")),
    )


@pytest.mark.parametrize("case", lines("produced.txt"), ids=lambda case: case[0])
def test_a_produced_buffer_is_judged_as_by_kafka(case: list[str]) -> None:
    name, circumstances, data, code, indices, max_timestamp, crc = case
    given = dict(item.split("=") for item in circumstances.split(",")) if circumstances != "-" else {}
    wanted = ErrorCode(int(code))
    if name in STRICTER or name.startswith(STRICTER_PREFIXES):
        wanted = ErrorCode.INVALID_RECORD
    if wanted is not ErrorCode.NONE:
        with pytest.raises(BrokerError) as refusal:
            judge(given, data)
        if wanted is ErrorCode.UNKNOWN_SERVER_ERROR:
            assert refusal.value.code in CLEARER
        else:
            assert refusal.value.code is wanted
        if indices != "-":
            assert isinstance(refusal.value, RecordValidationError)
            assert ",".join(str(index) for index, _ in refusal.value.record_errors) == indices
        return
    taken = judge(given, data)
    if max_timestamp != "-":
        assert taken.max_timestamp == int(max_timestamp)
        assert [record.offset for record in codec.decode(taken.data)] == list(
            range(1000, 1000 + taken.record_count)
        )
    if crc != "-":
        assert f"{taken.headers[0].crc:08x}" == crc
