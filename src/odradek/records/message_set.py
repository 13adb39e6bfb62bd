"""Messages of magic 0 and 1, alone or wrapped: reading and writing their bytes.

Invariant: what is read has a right CRC-32, or is refused with CORRUPT_MESSAGE. A compressed set is one
message, the wrapper, whose value holds the compressed inner messages. Offsets of inner messages are absolute
in magic 0; in magic 1 they count from the set's start, and the wrapper has the last one's absolute offset (or
0, when a producer did not care). A magic 1 wrapper with append time gives that time to all inside; otherwise
inner messages keep theirs and the wrapper carries the largest. The layout is in ``layout``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.ports.files import Buffer
from odradek.records.compression import compress, decompress
from odradek.records.layout import (
    APPEND_TIME_BIT,
    CODEC_MASK,
    LOG_OVERHEAD,
    MESSAGE_OVERHEAD_0,
    BatchHeader,
    Record,
)

_OFFSET_AND_SIZE = Struct(">qi")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class Message(NamedTuple):
    """A record and the magic it was written in, which a wrapper's reader must compare with the wrapper's."""

    magic: int
    record: Record


class _Parsed(NamedTuple):
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None


def read_message(buffer: Buffer, header: BatchHeader, bytes_max: int) -> Iterator[Message]:
    """The records of one message: itself, or what it wraps, decompressed into at most ``bytes_max``.

    They come one by one, so that a set of millions of small messages never exists as objects.
    """
    outer = _parse(memoryview(buffer)[header.position + LOG_OVERHEAD : header.end_position])
    if outer.attributes & CODEC_MASK:
        yield from _read_wrapped(outer, header.base_offset, bytes_max)
    else:
        yield _message(header.base_offset, outer.timestamp, outer)


def _read_wrapped(outer: _Parsed, last_offset: int, bytes_max: int) -> Iterator[Message]:
    codec_id = outer.attributes & CODEC_MASK
    if codec_id == Compression.ZSTD:
        raise _refused(f"zstd came after magic {outer.magic}")
    if outer.value is None:
        raise _refused("a wrapper message has no value")
    content = decompress(codec_id, outer.value, bytes_max, magic=outer.magic)
    last_inner = _last_offset(content)
    first_offset = 0
    if outer.magic == 1 and last_offset != 0:
        first_offset = last_offset - last_inner
        if first_offset < 0:
            raise _refused(f"wrapper offset {last_offset} is below its last message's {last_inner}")
    append_time = outer.magic == 1 and outer.attributes & APPEND_TIME_BIT
    for offset, inner in _split(content):
        parsed = _parse(inner)
        if parsed.attributes & CODEC_MASK:
            raise _refused("a message inside a compressed set is itself compressed")
        timestamp = outer.timestamp if append_time and parsed.magic == 1 else parsed.timestamp
        yield _message(first_offset + offset, timestamp, parsed)


def _last_offset(content: memoryview) -> int:
    last: int | None = None
    for offset, _ in _split(content):
        last = offset
    if last is None:
        raise _refused("a wrapper message is empty")
    return last


def _split(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Cut a wrapper's content into messages; a cut-off last one is left out, as it always was."""
    position, end = 0, len(content)
    while end - position >= LOG_OVERHEAD:
        offset, size = _OFFSET_AND_SIZE.unpack_from(content, position)
        if size < MESSAGE_OVERHEAD_0:
            raise _corrupt(f"an inner message of {size} bytes is smaller than any can be")
        position += LOG_OVERHEAD
        if size > end - position:
            break
        yield offset, content[position : position + size]
        position += size


def _parse(message: memoryview) -> _Parsed:
    """Read one message from its CRC on."""
    if zlib.crc32(message[4:]) != int.from_bytes(message[:4], "big"):
        raise _corrupt("a message's CRC is not that of its bytes")
    magic, attributes = message[4], message[5]
    if magic > 1:
        raise _refused(f"a message of magic {magic} among older ones")
    position, timestamp = 6, -1
    if magic == 1:
        if len(message) < 22:
            raise _corrupt(f"{len(message)} bytes are less than a magic 1 message's 22")
        (timestamp,) = _INT64.unpack_from(message, 6)
        position = 14
    key, position = _sized(message, position)
    value, _ = _sized(message, position)
    return _Parsed(magic, attributes, timestamp, None if key is None else bytes(key), value)


def _sized(message: memoryview, position: int) -> tuple[memoryview | None, int]:
    if len(message) - position < 4:
        raise _refused("a message ends before its fields do")
    (size,) = _INT32.unpack_from(message, position)
    position += 4
    if size < 0:
        return None, position
    if size > len(message) - position:
        raise _refused("a field of a message reaches past its end")
    return message[position : position + size], position + size


def _message(offset: int, timestamp: int, parsed: _Parsed) -> Message:
    value = None if parsed.value is None else bytes(parsed.value)
    return Message(parsed.magic, Record(offset, timestamp, parsed.key, value))


def _refused(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)


def _corrupt(why: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, why)


def write_message_set(
    records: Sequence[Record], magic: int, codec: Compression, append_time_ms: int | None = None
) -> bytes:
    """Write records as messages, wrapped in one if ``codec`` compresses; headers have no place and go.

    With ``append_time_ms`` all messages carry that time and its mark (magic 1).
    """
    wrapped = codec is not Compression.NONE
    first_offset = records[0].offset if wrapped and magic == 1 else 0
    bits = 0 if append_time_ms is None or magic == 0 else APPEND_TIME_BIT
    out = bytearray()
    newest = -1
    for record in records:
        # Messages have no times before the epoch; such a record has none here.
        timestamp = max(record.timestamp, -1) if append_time_ms is None else append_time_ms
        newest = max(newest, timestamp)
        out += _write(record.offset - first_offset, magic, bits, timestamp, record.key, record.value)
    if not wrapped:
        return bytes(out)
    return _write(records[-1].offset, magic, bits | codec, newest, None, compress(codec, out, magic=magic))


def _write(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    parts = [bytes((magic, attributes))]
    if magic == 1:
        parts.append(_INT64.pack(timestamp))
    for field in (key, value):
        parts.append(_INT32.pack(-1 if field is None else len(field)))
        parts.append(field or b"")
    body = b"".join(parts)
    return _OFFSET_AND_SIZE.pack(offset, len(body) + 4) + zlib.crc32(body).to_bytes(4, "big") + body
