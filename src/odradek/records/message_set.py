"""Messages of magic 0 and 1, single or wrapped: decoding and encoding.

Invariant: the CRC-32 of every decoded message is checked (CORRUPT_MESSAGE). A compressed set is one message,
the wrapper, whose value holds the compressed inner messages. Offsets of inner messages are absolute in magic
0; in magic 1 they are relative to the start of the set, and the wrapper has the absolute offset of the last
one (or 0 from some producers). A magic 1 wrapper with LogAppendTime sets the timestamp of all inner messages;
otherwise inner messages keep theirs and the wrapper has the largest. See ``layout`` for the format.
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
    """A record and the magic of its message, which must equal that of the wrapper."""

    magic: int
    record: Record


class _ParsedMessage(NamedTuple):
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None


def read_message(buffer: Buffer, header: BatchHeader, bytes_max: int) -> Iterator[Message]:
    """Yield the record of a message, or of its inner messages, decompressed to at most ``bytes_max``.

    Lazy, so that a set of millions of small messages is never held as objects.
    """
    outer = _parse(memoryview(buffer)[header.position + LOG_OVERHEAD : header.end_position])
    if outer.attributes & CODEC_MASK:
        yield from _read_wrapped(outer, header.base_offset, bytes_max)
    else:
        yield _message(header.base_offset, outer.timestamp, outer)


def _read_wrapped(outer: _ParsedMessage, last_offset: int, bytes_max: int) -> Iterator[Message]:
    codec_id = outer.attributes & CODEC_MASK
    if codec_id == Compression.ZSTD:
        raise _invalid(f"magic {outer.magic} does not support zstd")
    if outer.value is None:
        raise _invalid("value of a wrapper message must not be null")
    content = decompress(codec_id, outer.value, bytes_max, magic=outer.magic)
    last_inner = _last_offset(content)
    first_offset = 0
    if outer.magic == 1 and last_offset != 0:
        first_offset = last_offset - last_inner
        if first_offset < 0:
            raise _invalid(
                f"offset of a wrapper must be >= {last_inner}, that of its last message, got {last_offset}"
            )
    append_time = outer.magic == 1 and outer.attributes & APPEND_TIME_BIT
    for offset, inner in _split(content):
        parsed = _parse(inner)
        if parsed.attributes & CODEC_MASK:
            raise _invalid("inner messages of a compressed set must not be compressed")
        timestamp = outer.timestamp if append_time and parsed.magic == 1 else parsed.timestamp
        yield _message(first_offset + offset, timestamp, parsed)


def _last_offset(content: memoryview) -> int:
    last: int | None = None
    for offset, _ in _split(content):
        last = offset
    if last is None:
        raise _invalid("a wrapper message must not be empty")
    return last


def _split(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Split the content of a wrapper into messages; an incomplete last one is ignored, as in Kafka."""
    position, end = 0, len(content)
    while end - position >= LOG_OVERHEAD:
        offset, size = _OFFSET_AND_SIZE.unpack_from(content, position)
        if size < MESSAGE_OVERHEAD_0:
            raise _corrupt(f"size of an inner message must be >= {MESSAGE_OVERHEAD_0}, got {size}")
        position += LOG_OVERHEAD
        if size > end - position:
            break
        yield offset, content[position : position + size]
        position += size


def _parse(message: memoryview) -> _ParsedMessage:
    """Parse one message, starting at its CRC."""
    if zlib.crc32(message[4:]) != int.from_bytes(message[:4], "big"):
        raise _corrupt("CRC of a message does not match its bytes")
    magic, attributes = message[4], message[5]
    if magic > 1:
        raise _invalid(f"magic of a message must be 0 or 1, got {magic}")
    position, timestamp = 6, -1
    if magic == 1:
        if len(message) < 22:
            raise _corrupt(f"size of a magic 1 message must be >= 22, got {len(message)}")
        (timestamp,) = _INT64.unpack_from(message, 6)
        position = 14
    key, position = _sized(message, position)
    value, _ = _sized(message, position)
    return _ParsedMessage(magic, attributes, timestamp, None if key is None else bytes(key), value)


def _sized(message: memoryview, position: int) -> tuple[memoryview | None, int]:
    if len(message) - position < 4:
        raise _invalid("message ends within its fields")
    (size,) = _INT32.unpack_from(message, position)
    position += 4
    if size < 0:
        return None, position
    if size > len(message) - position:
        raise _invalid("field of a message exceeds the message")
    return message[position : position + size], position + size


def _message(offset: int, timestamp: int, parsed: _ParsedMessage) -> Message:
    value = None if parsed.value is None else bytes(parsed.value)
    return Message(parsed.magic, Record(offset, timestamp, parsed.key, value))


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, message)


def write_message_set(
    records: Sequence[Record], magic: int, codec: Compression, append_time_ms: int | None = None
) -> bytes:
    """Encode records as messages, in a wrapper if ``codec`` compresses; record headers are dropped.

    With ``append_time_ms`` all messages have that timestamp and type LogAppendTime (magic 1).
    """
    wrapped = codec is not Compression.NONE
    first_offset = records[0].offset if wrapped and magic == 1 else 0
    bits = 0 if append_time_ms is None or magic == 0 else APPEND_TIME_BIT
    out = bytearray()
    max_timestamp = -1
    for record in records:
        # Messages have no timestamps before the epoch: such records get none.
        timestamp = max(record.timestamp, -1) if append_time_ms is None else append_time_ms
        max_timestamp = max(max_timestamp, timestamp)
        out += _write(record.offset - first_offset, magic, bits, timestamp, record.key, record.value)
    if not wrapped:
        return bytes(out)
    return _write(
        records[-1].offset, magic, bits | codec, max_timestamp, None, compress(codec, out, magic=magic)
    )


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
