"""Records of ``__transaction_state`` in the format of Kafka's dump tool."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from odradek.commands import app
from odradek.coordinators.record_formatter import format_transaction_record
from odradek.records.batch import BatchBuilder
from odradek.records.layout import Record

GOLDEN = Path(__file__).parents[2] / "golden" / "transaction_state" / "dumped.txt"


def read_golden() -> list[tuple[bytes, bytes | None, str, str | None]]:
    lines = [line for line in GOLDEN.read_text(encoding="utf-8").split("\n") if line and line[0] != "#"]
    records = []
    for raw, key_text, value_text in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        key, value = raw.split(" ")
        value_bytes = None if value == "-" else bytes.fromhex(value)
        records.append((bytes.fromhex(key), value_bytes, key_text, None if value_text == "-" else value_text))
    return records


RECORDS = read_golden()


def format_key_and_value(key: bytes | None, value: bytes | None, offset: int = 0) -> tuple[str, str | None]:
    return format_transaction_record(Record(offset, 5, key, value, ()))


def test_output_equals_that_of_kafkas_tool() -> None:
    assert len(RECORDS) == 19
    for number, (key, value, *texts) in enumerate(RECORDS):
        assert list(format_key_and_value(key, value, number)) == texts


def test_dump_log_command_shows_the_records(tmp_path: Path) -> None:
    builder = BatchBuilder()
    for key, value, *_ in RECORDS:
        builder.append(5, key, value)
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(builder.build())
    result = CliRunner().invoke(app, ["dump-log", "--transaction-log-decoder", str(segment)])
    assert result.exit_code == 0
    shown = [line.partition("key: ")[2] for line in result.stdout.split("\n") if line.startswith("|")]
    assert shown == [
        key_text if value_text is None else f"{key_text} payload: {value_text}"
        for _, _, key_text, value_text in RECORDS
    ]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "The record has no key."),
        (b"\x00", b"", "a record must start with a version, got 1 bytes"),
        (RECORDS[0][0], b"", "a record must start with a version, got 0 bytes"),
        (RECORDS[0][0], b"\x00\x09\x01", "TransactionLogValue has no version 9"),
    ],
)
def test_unreadable_record_is_skipped_with_a_reason(key: bytes | None, value: bytes, reason: str) -> None:
    assert format_key_and_value(key, value, 23) == (f"Error at offset 23, skipping. {reason}", None)


@given(st.none() | st.binary(), st.none() | st.binary(), st.sampled_from([b"", RECORDS[0][0]]))
def test_any_record_can_be_formatted(key: bytes | None, value: bytes | None, prefix: bytes) -> None:
    assert format_key_and_value(key if key is None else prefix + key, value)[0]
