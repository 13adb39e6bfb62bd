"""The parts of DER that names in certificates need: definite lengths and tags of one byte."""

from __future__ import annotations

from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06

_LENGTH_OCTETS_MAX: Final = 4
_HIGH_TAG: Final = 0x1F


class DerError(ValueError):
    """Raised for bytes that are not DER."""


class DerValue(NamedTuple):
    """One value: its tag, its contents, and the whole encoding."""

    tag: int
    content: bytes
    encoded: bytes

    def children(self, tag: int | None = None) -> list[DerValue]:
        """Return the values inside; with ``tag``, this value must have that tag."""
        if tag is not None and self.tag != tag:
            raise DerError(f"tag must be {tag:#04x}, got {self.tag:#04x}")
        return parse_all(self.content)


def parse(data: bytes) -> DerValue:
    """Parse exactly one value."""
    value, end = _parse_at(data, 0)
    if end != len(data):
        raise DerError(f"{len(data) - end} bytes follow the value")
    return value


def parse_all(data: bytes) -> list[DerValue]:
    """Parse a series of values."""
    values = []
    position = 0
    while position < len(data):
        value, position = _parse_at(data, position)
        values.append(value)
    return values


def _parse_at(data: bytes, start: int) -> tuple[DerValue, int]:
    if len(data) < start + 2:
        raise DerError("value is truncated")
    tag, length = data[start], data[start + 1]
    if tag & _HIGH_TAG == _HIGH_TAG:
        raise DerError("tags of several bytes are not supported")
    content_start = start + 2
    if length & 0x80:
        octets = length & 0x7F
        if not 1 <= octets <= _LENGTH_OCTETS_MAX:
            raise DerError("length is not definite, or too large")
        content_start += octets
        length = int.from_bytes(data[start + 2 : content_start], "big")
    end = content_start + length
    if end > len(data):
        raise DerError("value is truncated")
    return DerValue(tag, data[content_start:end], data[start:end]), end


def dotted_oid(value: DerValue) -> str:
    """Return an object identifier as text, such as ``2.5.4.3``."""
    if value.tag != OBJECT_IDENTIFIER or not value.content or value.content[-1] & 0x80:
        raise DerError("object identifier is invalid")
    arcs: list[int] = []
    number = 0
    for octet in value.content:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            arcs.append(number)
            number = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))
