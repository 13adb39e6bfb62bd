"""Formats of records: input lines, templates, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.record_format import (
    InvalidRecordLine,
    ParsedRecord,
    json_printer,
    line_parser,
    parse_json,
    raw_printer,
    template_printer,
    text_printer,
    unescape,
)
from odradek.model.protocol_enums import TimestampType
from odradek.records.client.consumer import ConsumerRecord


def record(value: bytes | None = b"v", key: bytes | None = b"k", headers: Any = ((("h", b"1")),)) -> Any:
    return ConsumerRecord("t", 2, 7, 1234, TimestampType.CREATE_TIME, key, value, headers)


def test_line_parser() -> None:
    assert line_parser(None, None)(b"a:b") == ParsedRecord(b"a:b")
    assert line_parser(":", None)(b"a:b:c") == ParsedRecord(b"b:c", b"a")
    assert line_parser("\\t", None)(b"a\tb") == ParsedRecord(b"b", b"a")


def test_line_without_separator_is_rejected() -> None:
    with pytest.raises(InvalidRecordLine, match="':' between key and value"):
        line_parser(":", None)(b"ab")


def test_line_parser_null() -> None:
    assert line_parser(":", "NULL")(b"k:NULL") == ParsedRecord(None, b"k")
    assert line_parser(None, "NULL")(b"NULL") == ParsedRecord(None)
    assert line_parser(":", "NULL")(b"NULL:v") == ParsedRecord(b"v", None)


def test_parse_json() -> None:
    line = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "1"}, "partition": 3, "timestamp": 5}'
    assert parse_json(line) == ParsedRecord(b'{"a":1}', b"k", [("h", b"1")], 3, 5)
    assert parse_json(b'{"value": null}') == ParsedRecord(None, None, [])


@pytest.mark.parametrize("line", [b"", b"nothing", b"[1]", b'{"value"', b"3"])
def test_invalid_json_lines_are_rejected(line: bytes) -> None:
    with pytest.raises(InvalidRecordLine):
        parse_json(line)


@given(st.none() | st.binary(), st.none() | st.binary())
def test_json_round_trip(key: bytes | None, value: bytes | None) -> None:
    printed = json_printer(record(value, key))
    assert printed.count(b"\n") == 1
    parsed = parse_json(printed)
    assert (parsed.key, parsed.value, parsed.headers) == (key, value, [("h", b"1")])
    assert (parsed.partition, parsed.timestamp_ms) == (2, 1234)


def test_text_printer() -> None:
    assert text_printer(key=False, headers=False, timestamp=False)(record()) == b"v\n"
    assert text_printer(key=True, headers=True, timestamp=True)(record()) == b"1234\th=1\tk\tv\n"
    assert text_printer(key=True, headers=False, timestamp=False)(record(None, None)) == b"null\tnull\n"


def test_raw_printer() -> None:
    assert raw_printer(record(b"\0\xff")) == b"\0\xff"
    assert raw_printer(record(None)) == b""


def test_template_printer() -> None:
    printed = template_printer(r"%t[%p]@%o %k=%s %T %h %K/%S 100%% \q\t\\\n")(record())
    assert printed == b"t[2]@7 k=v 1234 h=1 1/1 100% \\q\t\\\n"
    assert template_printer("%K %S %s")(record(None, None)) == b"-1 -1 "


def test_unknown_template_field_is_rejected() -> None:
    with pytest.raises(InvalidRecordLine, match="got %x"):
        template_printer("%x")


def test_unescape() -> None:
    assert unescape(r"a\tb\nc\\d\e") == "a\tb\nc\\d\\e"


def test_json_printer() -> None:
    printed = json.loads(json_printer(record(b"\xff", None)))
    assert printed == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 1234,
        "key": None,
        "value_base64": "/w==",
        "headers": [{"key": "h", "value": "1"}],
    }
