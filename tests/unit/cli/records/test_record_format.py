"""Lines become records, and records lines, without losing anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.record_format import (
    InvalidRecordLine,
    Outgoing,
    json_printer,
    plain_reader,
    raw_printer,
    read_json,
    template_printer,
    text_printer,
    unescaped,
)
from odradek.model.protocol_enums import TimestampType
from odradek.records.codec import ConsumerRecord


def record(value: bytes | None = b"v", key: bytes | None = b"k", headers: Any = ((("h", b"1")),)) -> Any:
    return ConsumerRecord("t", 2, 7, 1234, TimestampType.CREATE_TIME, key, value, headers)


def test_a_line_is_a_value_and_with_a_separator_key_and_value() -> None:
    assert plain_reader(None, None)(b"a:b") == Outgoing(b"a:b")
    assert plain_reader(":", None)(b"a:b:c") == Outgoing(b"b:c", b"a")
    assert plain_reader("\\t", None)(b"a\tb") == Outgoing(b"b", b"a")


def test_a_line_without_the_separator_is_told() -> None:
    with pytest.raises(InvalidRecordLine, match="':' between key and value"):
        plain_reader(":", None)(b"ab")


def test_the_mark_of_null_is_sent_as_null() -> None:
    assert plain_reader(":", "NULL")(b"k:NULL") == Outgoing(None, b"k")
    assert plain_reader(None, "NULL")(b"NULL") == Outgoing(None)
    assert plain_reader(":", "NULL")(b"NULL:v") == Outgoing(b"v", None)


def test_json_lines_name_all_parts_of_a_record() -> None:
    line = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "1"}, "partition": 3, "timestamp": 5}'
    assert read_json(line) == Outgoing(b'{"a":1}', b"k", [("h", b"1")], 3, 5)
    assert read_json(b'{"value": null}') == Outgoing(None, None, [])


@pytest.mark.parametrize("line", [b"", b"nothing", b"[1]", b'{"value"', b"3"])
def test_lines_that_are_no_json_objects_are_told(line: bytes) -> None:
    with pytest.raises(InvalidRecordLine):
        read_json(line)


@given(st.none() | st.binary(), st.none() | st.binary())
def test_what_is_printed_as_json_is_read_back_as_it_was(key: bytes | None, value: bytes | None) -> None:
    printed = json_printer(record(value, key))
    assert printed.count(b"\n") == 1
    back = read_json(printed)
    assert (back.key, back.value, back.headers) == (key, value, [("h", b"1")])
    assert (back.partition, back.timestamp_ms) == (2, 1234)


def test_text_shows_what_is_asked_for_with_tabs_between() -> None:
    assert text_printer(key=False, headers=False, timestamp=False)(record()) == b"v\n"
    assert text_printer(key=True, headers=True, timestamp=True)(record()) == b"1234\th=1\tk\tv\n"
    assert text_printer(key=True, headers=False, timestamp=False)(record(None, None)) == b"null\tnull\n"


def test_raw_is_the_value_alone() -> None:
    assert raw_printer(record(b"\0\xff")) == b"\0\xff"
    assert raw_printer(record(None)) == b""


def test_a_template_is_filled_in() -> None:
    printed = template_printer(r"%t[%p]@%o %k=%s %T %h %K/%S 100%% \q\t\\\n")(record())
    assert printed == b"t[2]@7 k=v 1234 h=1 1/1 100% \\q\t\\\n"
    assert template_printer("%K %S %s")(record(None, None)) == b"-1 -1 "


def test_a_template_with_an_unknown_letter_is_refused() -> None:
    with pytest.raises(InvalidRecordLine, match="%x means nothing"):
        template_printer("%x")


def test_escapes_are_read() -> None:
    assert unescaped(r"a\tb\nc\\d\e") == "a\tb\nc\\d\\e"


def test_json_names_where_a_record_was() -> None:
    shown = json.loads(json_printer(record(b"\xff", None)))
    assert shown == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 1234,
        "key": None,
        "value_base64": "/w==",
        "headers": [{"key": "h", "value": "1"}],
    }
