"""Unsigned varints and tagged-field sections, the variable-width parts of the format.

An unsigned varint has seven bits per byte, low bits first; the high bit marks a following byte; at most five
bytes. A tagged-field section is a varint count, then tag, size and bytes of each field; unknown tags are
skipped.

Reading functions take a position and return the position after the value. They raise
``RemoteProtocolViolation``, or ``IndexError`` at the end of the bytes, which the generated decoders convert.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Buffer

UVARINT_BYTES_MAX: Final = 5
STRING_BYTES_MAX: Final = 0x7FFF

ONE_BYTE: Final = tuple(bytes([n]) for n in range(128))
"""Encoded varints of one byte."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned number of at most 32 bits."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(raw: Buffer, position: int) -> tuple[int, int]:
    """Decode a varint; return the value and the position after it."""
    byte = raw[position]
    position += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        if shift == 7 * UVARINT_BYTES_MAX:
            raise RemoteProtocolViolation(f"varint must have <= {UVARINT_BYTES_MAX} bytes")
        byte = raw[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, position


def skip_tags(raw: Buffer, position: int, limit: int) -> int:
    """Skip the tagged-field section at ``position``."""
    count, position = read_uvarint(raw, position)
    check_count("tagged fields", count, limit - position)
    for _ in range(count):
        _, position = read_uvarint(raw, position)
        size, position = read_uvarint(raw, position)
        if size > limit - position:
            wrong_length("tagged field", size, limit - position)
        position += size
    return position


def check_count(what: str, count: int, left: int) -> None:
    """Check a count before allocating: every element has at least one byte."""
    if not 0 <= count <= left:
        wrong_count(what, count, left)


def wrong_count(what: str, count: int, left: int) -> None:
    if count < 0:
        raise RemoteProtocolViolation(f"{what} must not be null")
    raise RemoteProtocolViolation(f"{what} must have <= {left} elements (the remaining bytes), got {count}")


def wrong_length(what: str, length: int, left: int) -> None:
    if length < 0:
        raise RemoteProtocolViolation(f"{what} must not be null")
    raise RemoteProtocolViolation(f"{what} must have <= {max(left, 0)} bytes, got {length}")


def wrong_tag_size(what: str) -> None:
    raise RemoteProtocolViolation(f"{what}: size of the tagged field does not match its value")
