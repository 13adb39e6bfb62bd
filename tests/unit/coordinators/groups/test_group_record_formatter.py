"""Records of ``__consumer_offsets`` in words, as Kafka's dump tool has them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from odradek.commands import app
from odradek.coordinators.groups.record_formatter import format_record
from odradek.records.batch import BatchBuilder
from odradek.records.layout import Record

GOLDEN = Path(__file__).parents[3] / "golden" / "consumer_offsets" / "dumped.txt"


def read_golden() -> list[tuple[bytes, bytes | None, str, str | None]]:
    lines = [line for line in GOLDEN.read_text(encoding="utf-8").split("\n") if line and line[0] != "#"]
    entries = []
    for raw, key_words, value_words in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        key, value = raw.split(" ")
        entries.append(
            (
                bytes.fromhex(key),
                None if value == "-" else bytes.fromhex(value),
                key_words,
                None if value_words == "-" else value_words,
            )
        )
    return entries


ENTRIES = read_golden()


def words_for(key: bytes | None, value: bytes | None, offset: int = 0) -> tuple[str, str | None]:
    return format_record(Record(offset, 5, key, value, ()))


def test_the_words_are_those_of_kafkas_tool() -> None:
    assert len(ENTRIES) == 20
    for number, (key, value, *words) in enumerate(ENTRIES):
        assert list(words_for(key, value, number)) == words


def test_the_command_line_shows_them(tmp_path: Path) -> None:
    builder = BatchBuilder()
    for key, value, *_ in ENTRIES:
        builder.append(5, key, value)
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(builder.build())
    ran = CliRunner().invoke(app, ["dump-log", "--offsets-decoder", str(segment)])
    assert ran.exit_code == 0
    shown = [line.partition("key: ")[2] for line in ran.stdout.split("\n") if line.startswith("|")]
    assert shown == [
        key_words if words is None else f"{key_words} payload: {words}" for _, _, key_words, words in ENTRIES
    ]


OFFSET_KEY = ENTRIES[1][0]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "The record has no key."),
        (b"\x00", b"", "a record of 1 bytes has no version"),
        (OFFSET_KEY, b"", "a record of 0 bytes has no version"),
        (OFFSET_KEY, b"\x00\x09\x01", "OffsetCommitValue has no version 9"),
    ],
)
def test_what_cannot_be_read_is_skipped_with_a_reason(key: bytes | None, value: bytes, reason: str) -> None:
    assert words_for(key, value, 23) == (f"Error at offset 23, skipping. {reason}", None)


def test_a_record_that_ends_early_is_skipped_with_a_reason() -> None:
    words, nothing = words_for(OFFSET_KEY, b"\x00\x03\x01", 7)
    assert words.startswith("Error at offset 7, skipping. OffsetCommitValue version 3 cannot be decoded")
    assert nothing is None


@given(st.none() | st.binary(), st.none() | st.binary(), st.sampled_from([b"", *(e[0] for e in ENTRIES)]))
def test_any_record_has_words(key: bytes | None, value: bytes | None, prefix: bytes) -> None:
    assert words_for(key if key is None else prefix + key, value)[0]
