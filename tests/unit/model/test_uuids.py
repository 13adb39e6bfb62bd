"""UUIDs and their text form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.uuids import parse_uuid, random_uuid, uuid_text


def test_uuid_text_matches_kafka() -> None:
    uuid = bytes.fromhex("dd0d1b546e4e4ea486b1afbd9ebb263a")
    assert uuid_text(uuid) == "3Q0bVG5OTqSGsa-9nrsmOg"
    assert parse_uuid("3Q0bVG5OTqSGsa-9nrsmOg") == uuid
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text_round_trip(uuid: bytes) -> None:
    assert len(uuid_text(uuid)) == 22
    assert parse_uuid(uuid_text(uuid)) == uuid
    assert parse_uuid(uuid_text(uuid) + "==") == uuid


@pytest.mark.parametrize(
    "text", ["", "short", "3Q0bVG5OTqSGsa-9nrsmOgAA", "3Q0bVG5OTqSGsa+9nrsmOg", "é" * 22]
)
def test_invalid_uuid_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="uuid"):
        parse_uuid(text)


def test_uuid_must_have_16_bytes() -> None:
    with pytest.raises(ValueError, match="16"):
        uuid_text(b"short")


def test_random_uuid_is_neither_reserved_nor_starts_with_dash() -> None:
    good = parse_uuid("3Q0bVG5OTqSGsa-9nrsmOg")
    draws = iter([bytes(16), (1).to_bytes(16, "big"), parse_uuid("-Q0bVG5OTqSGsa-9nrsmOg"), good])
    assert random_uuid(lambda: next(draws)) == good
    with pytest.raises(ValueError, match="draws"):
        random_uuid(lambda: bytes(16))
