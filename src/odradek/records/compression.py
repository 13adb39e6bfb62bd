"""Compression by codec id, with a limit on the output of every decompression.

Invariant: the output never exceeds the limit, whatever the input claims. Zlib and snappy apply the limit
themselves. For lz4 and zstd the output buffer starts at a size estimated from the input and grows eightfold
up to the limit, so that a small batch costs little and a decompression bomb costs at most one buffer of that
size. Large buffers are memory-mapped: pages are allocated as they are written, without the interpreter lock.
Output beyond the limit is MESSAGE_TOO_LARGE (``DecompressedTooLarge``), which makes a producer split the
batch; a malformed stream is INVALID_RECORD, which producers do not retry.

``odradek.decompressed.bytes.max`` limits appended batches. Stored batches are limited by
``DECOMPRESSED_BYTES_MAX`` only, which no config exceeds: batches in the log can always be read, cleaned and
converted, also after the config was lowered, and so can batches stored by Kafka.

Framings: plain gzip and zstd. Snappy in xerial framing (8 bytes of magic, two int32 versions, then
int32-sized raw blocks); a single raw block is accepted on reading. LZ4 frames of independent 64 KiB blocks;
in magic 0 messages the header checksum also covers the frame's magic number, a bug of the first writers that
became the format: written that way, and not checked on reading.
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

DECOMPRESSED_BYTES_MAX: Final = 2**31 - 1
"""Maximum size of the decompressed records of a stored batch: an int32 in Kafka."""

_OUTPUT_BYTES_MIN: Final = 4 * 1024
_GROWTH: Final = 8
_MAPPED_BYTES_MIN: Final = 1024 * 1024
"""Smaller output buffers are cheaper to zero than to map."""
_GZIP_STEP_BYTES: Final = 256 * 1024
"""Output per zlib call: zlib joins its output from pieces, which copies it."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_MEMBERS_MAX: Final = 16
"""Each further member costs a copy of the remaining input; no known producer writes more than one."""

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
    """Raised when a batch decompresses to more than the limit."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, f"batch must decompress to <= {bytes_max} bytes")


def decompress(codec_id: int, data: Buffer, bytes_max: int, *, magic: int = 2) -> memoryview:
    """Decompress into a new buffer that the caller owns."""
    view = memoryview(data)
    if codec_id == Compression.GZIP:
        return _read_gzip(view, bytes_max)
    if codec_id == Compression.SNAPPY:
        return _read_snappy(view, bytes_max)
    if codec_id == Compression.LZ4:
        frame, size_estimate = _check_lz4_frame(view, magic)
        return _decompress_into(cramjam.lz4.decompress_into, frame, size_estimate, bytes_max)
    if codec_id == Compression.ZSTD:
        return _decompress_into(cramjam.zstd.decompress_into, view, _GROWTH * len(view), bytes_max)
    raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec id {codec_id}")


def compress(codec: Compression, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress in Kafka's framing; level ``None`` (or -1 for gzip) is the codec's default."""
    if codec == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6 if level in (None, -1) else level))
    if codec == Compression.SNAPPY:
        return _write_snappy(data)
    if codec == Compression.LZ4:
        return _write_lz4(data, _LZ4_DEFAULT_LEVEL if level is None else level, magic)
    if codec == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    return bytes(data)


def _decompress_into(
    decompress_into: Callable[[memoryview, bytearray | mmap.mmap], int],
    data: memoryview,
    size_estimate: int,
    bytes_max: int,
) -> memoryview:
    size = min(max(size_estimate, _OUTPUT_BYTES_MIN), bytes_max)
    while True:
        out = _allocate(size)
        try:
            return memoryview(out)[: decompress_into(data, out)]
        except cramjam.DecompressionError as error:
            # The only error caused by the output buffer and not by the stream.
            if "write whole buffer" not in str(error):
                raise _malformed(str(error)) from error
        if size >= bytes_max:
            raise DecompressedTooLarge(bytes_max)
        del out
        size = min(size * _GROWTH, bytes_max)


def _allocate(size: int) -> bytearray | mmap.mmap:
    return bytearray(size) if size < _MAPPED_BYTES_MIN else mmap.mmap(-1, size)


def _malformed(reason: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, f"batch cannot be decompressed: {reason}")


def _read_gzip(data: Buffer, bytes_max: int) -> memoryview:
    """Decompress gzip with zlib, which limits its output itself and rejects what Java rejects.

    As in Java, consecutive members are joined and other bytes after a member are ignored.
    """
    out = bytearray()
    for _ in range(_GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            step = min(_GZIP_STEP_BYTES, bytes_max - len(out) + 1)
            try:
                part = member.decompress(data, step)
            except zlib.error as error:
                raise _malformed(str(error)) from error
            out += part
            if len(out) > bytes_max:
                raise DecompressedTooLarge(bytes_max)
            data = member.unconsumed_tail
            if not member.eof and not data and len(part) < step:
                raise _malformed("truncated gzip stream")
        data = member.unused_data
        if not data.startswith(_GZIP_MAGIC):
            return memoryview(out)
    raise _malformed(f"gzip stream must have <= {_GZIP_MEMBERS_MAX} members")


def _read_snappy(data: memoryview, bytes_max: int) -> memoryview:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _read_snappy_blocks([data], bytes_max)
    blocks = []
    position, end = len(_XERIAL_HEADER), len(data)
    while position < end:
        # Writers that are flushed and reopened repeat the header.
        if bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < size <= end - position:
            raise _malformed(f"size of a snappy block must be in 1..{end - position}, got {size}")
        blocks.append(data[position : position + size])
        position += size
    return _read_snappy_blocks(blocks, bytes_max)


def _read_snappy_blocks(blocks: list[memoryview], bytes_max: int) -> memoryview:
    try:
        sizes = [int(cramjam.snappy.decompress_raw_len(block)) for block in blocks]
        # A raw block declares its size, which snappy cannot exceed: check it before allocating.
        if sum(sizes) > bytes_max:
            raise DecompressedTooLarge(bytes_max)
        out = memoryview(_allocate(sum(sizes)))
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, out[position : position + size])
            position += size
    except cramjam.DecompressionError as error:
        raise _malformed(str(error)) from error
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
    """Check that Kafka's readers accept the frame; return it trimmed, with an estimate of the output size."""
    if len(data) < 7 or bytes(data[:4]) != _LZ4_MAGIC:
        raise _malformed("missing lz4 frame magic")
    flags, block = data[4], data[5]
    if flags & 0xE3 != 0x60 or block & 0x8F or block < 0x40:
        raise _malformed(f"unsupported lz4 frame flags {flags:#04x} {block:#04x}")
    descriptor_end = 14 if flags & 0x08 else 6
    if len(data) <= descriptor_end:
        raise _malformed("truncated lz4 frame header")
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
            raise _malformed("missing lz4 end mark")
        size = int.from_bytes(data[position : position + 4], "little") & ~_LZ4_STORED_BIT
        position += 4
        if size == 0:
            break
        position += size + block_check
        blocks += 1
    if len(data) - position < content_check:
        raise _malformed("truncated lz4 frame")
    return position + content_check, blocks


def _write_lz4(data: Buffer, level: int, magic: int) -> bytes:
    checked = _LZ4_MAGIC + _LZ4_DESCRIPTOR if magic == 0 else _LZ4_DESCRIPTOR
    out = bytearray(_LZ4_MAGIC + _LZ4_DESCRIPTOR)
    out.append(xxh32(checked) >> 8 & 0xFF)
    # Kafka uses the fast compressor at the default level and the high one at any other.
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


# XXH32 with seed 0, for LZ4 frame headers, which have a few bytes only.

_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1
_MASK: Final = 0xFFFFFFFF


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> (32 - by)) & _MASK


def xxh32(data: bytes) -> int:
    """Return the 32-bit hash of ``data``."""
    lanes = [_PRIME_1 + _PRIME_2, _PRIME_2, 0, -_PRIME_1]
    position = 0
    while len(data) - position >= 16:
        for lane in range(4):
            word = int.from_bytes(data[position : position + 4], "little")
            lanes[lane] = _rotate(lanes[lane] + word * _PRIME_2, 13) * _PRIME_1
            position += 4
    mixed = sum(_rotate(lanes[lane], by) for lane, by in enumerate((1, 7, 12, 18)))
    result = (mixed if position else _PRIME_5) + len(data)
    while len(data) - position >= 4:
        word = int.from_bytes(data[position : position + 4], "little")
        result = _rotate(result + word * _PRIME_3, 17) * _PRIME_4
        position += 4
    for byte in data[position:]:
        result = _rotate(result + byte * _PRIME_5, 11) * _PRIME_1
    result &= _MASK
    result = (result ^ result >> 15) * _PRIME_2 & _MASK
    result = (result ^ result >> 13) * _PRIME_3 & _MASK
    return result ^ result >> 16
