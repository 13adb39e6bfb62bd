"""Codec ids to functions; every decompression has a hard bound on its output.

Invariant: no output is larger than the bound given, whatever the input claims. Zlib and snappy take the
bound as it is. For lz4 and zstd the output goes into a buffer of ours that starts at a size the input makes
plausible and grows eightfold up to the bound, so a small batch costs little and a bomb costs at most one
buffer of the bound. Large buffers are mapped: their pages become memory only as they are written, and the
interpreter's lock is not held while they do. Output past the bound is MESSAGE_TOO_LARGE
(``DecompressedTooLarge``), which makes a producer split the batch; input that is no such stream is
INVALID_RECORD, which no producer retries.

What a leader accepts is bounded by ``odradek.decompressed.bytes.max``. What is stored is bounded by
``DECOMPRESSED_BYTES_MAX`` alone, which no setting exceeds: whatever was accepted once can be read, cleaned
and converted, also after that setting was lowered, and so can what Kafka stored.

Framings: gzip and zstd as they are. Snappy in xerial's framing (8 bytes of magic, two int32 versions, then
int32-sized raw blocks), written always, while a raw block alone is read too. LZ4 frames of independent 64 KiB
blocks; in magic 0 messages the header checksum also covers the frame's magic number, a mistake of the first
writers that became the format: written so, and not checked on reading.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.ports.files import Buffer
from odradek.records.xxh32 import xxh32

DECOMPRESSED_BYTES_MAX: Final = 2**31 - 1
"""The largest size of a stored batch's records: Kafka counts them in an int32."""

_FIRST_GUESS_MIN: Final = 4 * 1024
_GROWTH: Final = 8
_MAPPED_BYTES_MIN: Final = 1024 * 1024
"""Smaller output buffers are cheaper to clear than to map."""
_GZIP_STEP_BYTES: Final = 256 * 1024
"""Output of one call to zlib, which collects what it gives in pieces and joins them: a copy each."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_MEMBERS_MAX: Final = 16
"""Every further member costs a copy of the rest; no known producer writes more than one."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_DESCRIPTOR: Final = b"\x60\x40"
"""Version 1, independent blocks, no checksums or content size; blocks of at most 64 KiB."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED_BIT: Final = 0x8000_0000
_LZ4_DEFAULT_LEVEL: Final = 9


class DecompressedTooLarge(BrokerError):
    """Raised when a batch decompresses to more than the bound."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch must decompress to <= {bytes_max} bytes, got more"
        )


def decompress(codec_id: int, data: Buffer, bytes_max: int, *, magic: int = 2) -> memoryview:
    """Undo ``compress``; the result is a view of a fresh buffer that the caller owns."""
    view = memoryview(data)
    if codec_id == Compression.GZIP:
        return _read_gzip(view, bytes_max)
    if codec_id == Compression.SNAPPY:
        return _read_snappy(view, bytes_max)
    if codec_id == Compression.LZ4:
        frame, guess = _check_lz4_frame(view, magic)
        return _inflate(cramjam.lz4.decompress_into, frame, guess, bytes_max)
    if codec_id == Compression.ZSTD:
        return _inflate(cramjam.zstd.decompress_into, view, _GROWTH * len(view), bytes_max)
    raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has id {codec_id}")


def compress(codec: Compression, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress as Kafka frames it; ``None`` or gzip's -1 is the codec's default level."""
    if codec == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6 if level in (None, -1) else level))
    if codec == Compression.SNAPPY:
        return _write_snappy(data)
    if codec == Compression.LZ4:
        return _write_lz4(data, _LZ4_DEFAULT_LEVEL if level is None else level, magic)
    if codec == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    return bytes(data)


def _inflate(
    into: Callable[[memoryview, bytearray | mmap.mmap], int], data: memoryview, guess: int, bytes_max: int
) -> memoryview:
    size = min(max(guess, _FIRST_GUESS_MIN), bytes_max)
    while True:
        out = _blank(size)
        try:
            return memoryview(out)[: into(data, out)]
        except cramjam.DecompressionError as failed:
            # The only failure that is about our buffer and not about the stream.
            if "write whole buffer" not in str(failed):
                raise _not_a_stream(str(failed)) from failed
        if size >= bytes_max:
            raise DecompressedTooLarge(bytes_max)
        del out
        size = min(size * _GROWTH, bytes_max)


def _blank(size: int) -> bytearray | mmap.mmap:
    return bytearray(size) if size < _MAPPED_BYTES_MIN else mmap.mmap(-1, size)


def _not_a_stream(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, f"a batch cannot be decompressed: {why}")


def _read_gzip(data: Buffer, bytes_max: int) -> memoryview:
    """Read a gzip stream with zlib, which bounds its output itself and refuses all that Java's would.

    As Java does: members that follow one another are joined, other bytes after a member are ignored.
    """
    out = bytearray()
    for _ in range(_GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            step = min(_GZIP_STEP_BYTES, bytes_max - len(out) + 1)
            try:
                part = member.decompress(data, step)
            except zlib.error as failed:
                raise _not_a_stream(str(failed)) from failed
            out += part
            if len(out) > bytes_max:
                raise DecompressedTooLarge(bytes_max)
            data = member.unconsumed_tail
            if not member.eof and not data and len(part) < step:
                raise _not_a_stream("the gzip stream is cut off")
        data = member.unused_data
        if not data.startswith(_GZIP_MAGIC):
            return memoryview(out)
    raise _not_a_stream(f"more than {_GZIP_MEMBERS_MAX} gzip members")


def _read_snappy(data: memoryview, bytes_max: int) -> memoryview:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _read_snappy_blocks([data], bytes_max)
    blocks = []
    position, end = len(_XERIAL_HEADER), len(data)
    while position < end:
        # Writers that were flushed and reopened repeat the header in mid-stream.
        if bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < size <= end - position:
            raise _not_a_stream(f"a snappy block of {size} bytes where {end - position} are left")
        blocks.append(data[position : position + size])
        position += size
    return _read_snappy_blocks(blocks, bytes_max)


def _read_snappy_blocks(blocks: list[memoryview], bytes_max: int) -> memoryview:
    try:
        sizes = [int(cramjam.snappy.decompress_raw_len(block)) for block in blocks]
        # A raw block states its size; snappy cannot exceed it, so the statement is checked before allocating.
        if sum(sizes) > bytes_max:
            raise DecompressedTooLarge(bytes_max)
        out = memoryview(_blank(sum(sizes)))
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, out[position : position + size])
            position += size
    except cramjam.DecompressionError as failed:
        raise _not_a_stream(str(failed)) from failed
    return out


def _write_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _check_lz4_frame(data: memoryview, magic: int) -> tuple[memoryview, int]:
    """Hold the frame to what Kafka's readers take; returns the frame alone and a guess at its size."""
    if len(data) < 7 or bytes(data[:4]) != _LZ4_MAGIC:
        raise _not_a_stream("no lz4 frame starts here")
    flags, block = data[4], data[5]
    if flags & 0xE3 != 0x60 or block & 0x8F or block < 0x40:
        raise _not_a_stream(f"lz4 frame flags {flags:#04x} {block:#04x} are not readable for all")
    descriptor_end = 14 if flags & 0x08 else 6
    if len(data) <= descriptor_end:
        raise _not_a_stream("the lz4 frame header is cut off")
    end, blocks = _lz4_frame_end(data, descriptor_end + 1, 4 if flags & 0x10 else 0, 4 if flags & 0x04 else 0)
    frame = data[:end]
    if magic == 0:
        frame = memoryview(bytearray(frame))
        frame[descriptor_end] = xxh32(bytes(frame[4:descriptor_end])) >> 8 & 0xFF
    return frame, min(blocks << (2 * (block >> 4) + 8), _GROWTH * len(frame))


def _lz4_frame_end(data: memoryview, position: int, block_check: int, content_check: int) -> tuple[int, int]:
    blocks = 0
    while True:
        if len(data) - position < 4:
            raise _not_a_stream("the lz4 frame has no end mark")
        size = int.from_bytes(data[position : position + 4], "little") & ~_LZ4_STORED_BIT
        position += 4
        if size == 0:
            break
        position += size + block_check
        blocks += 1
    if len(data) - position < content_check:
        raise _not_a_stream("the lz4 frame is cut off")
    return position + content_check, blocks


def _write_lz4(data: Buffer, level: int, magic: int) -> bytes:
    checked = _LZ4_MAGIC + _LZ4_DESCRIPTOR if magic == 0 else _LZ4_DESCRIPTOR
    out = bytearray(_LZ4_MAGIC + _LZ4_DESCRIPTOR)
    out.append(xxh32(checked) >> 8 & 0xFF)
    # At the default level Kafka uses the fast compressor, at any other the thorough one.
    fast = level == _LZ4_DEFAULT_LEVEL
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(
            cramjam.lz4.compress_block(plain, store_size=False)
            if fast
            else cramjam.lz4.compress_block(
                plain, store_size=False, mode="high_compression", compression=level
            )
        )
        if len(packed) < len(plain):
            out += len(packed).to_bytes(4, "little")
            out += packed
        else:
            out += (len(plain) | _LZ4_STORED_BIT).to_bytes(4, "little")
            out += plain
    out += bytes(4)
    return bytes(out)
