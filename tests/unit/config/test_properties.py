"""Parsing of Java properties files."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.sources import parse_properties
from odradek.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb=2\n", {"a": "1", "b": "2"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t:\t1 ", {"a": "1 "}),
        ("a = = 1", {"a": "= 1"}),
        ("a\n", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("  # no\n! no\n\n   \na=1", {"a": "1"}),
        ("a=1 # part of the value", {"a": "1 # part of the value"}),
        ("a=1,\\\n   2,\\\n   3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u4E2D", {"a": "é中"}),
        ("a=é", {"a": "é"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("\ufeffa=1", {"a": "1"}),
        ("a=C:\\\\data", {"a": "C:\\data"}),
        ("", {}),
    ],
)
def test_files_are_parsed_as_in_java(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_all_malformed_escapes_are_reported_with_line_numbers() -> None:
    with pytest.raises(ConfigError) as error:
        parse_properties("a=1\nb=\\u12\nc=2\nd=\\uzzzz")
    assert [line.split(":")[0] for line in error.value.problems] == ["line 2", "line 4"]


def _escaped(text: str) -> str:
    """Escape all special characters as java.util.Properties does."""
    return "".join(
        f"\\u{ord(c):04x}"
        if ord(c) < 0x20 or c in "\x7f\x85\u2028\u2029"
        else f"\\{c}"
        if c in "\\=: #!"
        else c
        for c in text
    )


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=20), max_size=5))
def test_properties_round_trip(values: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in values.items())
    assert parse_properties(text) == values


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_properties(text)
