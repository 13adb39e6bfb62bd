"""Unsigned varints and tagged-field sections: the pieces of the format that have no fixed width.

An unsigned varint holds seven bits per byte, low bits first, the high bit saying that another byte follows;
at most five bytes. A tagged-field section is a varint count, then for each field its tag, its size and its
bytes; tags that nobody here knows are stepped over.

Functions that read take the position to read at and give the position after; they raise
``RemoteProtocolViolation``, or ``IndexError`` where the bytes end too early, which the compiled decoders
turn into one.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Buffer

UVARINT_BYTES_MAX: Final = 5
STRING_BYTES_MAX: Final = 0x7FFF

ONE_BYTE: Final = tuple(bytes([n]) for n in range(128))
"""Varints of one byte, ready made."""


def uvarint(value: int) -> bytes:
    """Encode a number of at most 32 bits."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(raw: Buffer, position: int) -> tuple[int, int]:
    """Decode one number: the value, and the position after it."""
    byte = raw[position]
    position += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        if shift == 7 * UVARINT_BYTES_MAX:
            raise RemoteProtocolViolation(f"a varint is longer than {UVARINT_BYTES_MAX} bytes")
        byte = raw[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, position


def skip_tags(raw: Buffer, position: int, limit: int) -> int:
    """Step over a whole tagged-field section that begins at ``position``."""
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
    """No element takes less than a byte: a count above the bytes left is refused before allocating."""
    if not 0 <= count <= left:
        wrong_count(what, count, left)


def wrong_count(what: str, count: int, left: int) -> None:
    if count < 0:
        raise RemoteProtocolViolation(f"{what}: null where none is allowed")
    raise RemoteProtocolViolation(f"{what}: {count} elements announced, {left} bytes left")


def wrong_length(what: str, length: int, left: int) -> None:
    if length < 0:
        raise RemoteProtocolViolation(f"{what}: null where none is allowed")
    raise RemoteProtocolViolation(f"{what}: {length} bytes announced, {max(left, 0)} left")


def wrong_tag_size(what: str) -> None:
    raise RemoteProtocolViolation(f"{what}: the tagged field's size is not that of its value")
