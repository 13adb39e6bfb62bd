"""Varints and sections of unknown tagged fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.primitives import read_uvarint, skip_tags, uvarint


@given(st.integers(0, (1 << 32) - 1), st.binary(max_size=3))
def test_varint_round_trip(value: int, before: bytes) -> None:
    raw = uvarint(value)
    assert len(raw) == max(1, -(-value.bit_length() // 7))
    assert read_uvarint(before + raw + b"\xff", len(before)) == (value, len(before) + len(raw))


@pytest.mark.parametrize(("value", "raw"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2")])
def test_known_varints(value: int, raw: bytes) -> None:
    assert uvarint(value) == raw
    assert read_uvarint(raw, 0) == (value, len(raw))


def test_varint_of_six_bytes_is_rejected() -> None:
    with pytest.raises(RemoteProtocolViolation, match="5 bytes"):
        read_uvarint(b"\xff" * 5 + b"\0", 0)


def test_tags_are_skipped_within_bounds() -> None:
    section = b"\2" + b"\0\3abc" + b"\x80\1\0"
    assert skip_tags(b"#" + section + b"rest", 1, 1 + len(section)) == 1 + len(section)
    for wrong in (b"\x7f", b"\1\0\x05abc"):
        with pytest.raises(RemoteProtocolViolation):
            skip_tags(wrong, 0, len(wrong))
