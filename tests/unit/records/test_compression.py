"""Framings of every codec, limits on decompressed output, malformed streams."""

import gzip
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records.compression import compress, decompress, xxh32

CODECS = list(Compression)[1:]
MIB = 1024 * 1024


def refusal(codec_id: int, data: bytes, bytes_max: int = MIB, magic: int = 2) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        decompress(codec_id, data, bytes_max, magic=magic)
    return refused.value.code


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.integers(0, 900), st.integers(0, 2))
def test_round_trip(codec: Compression, data: bytes, times: int, magic: int) -> None:
    content = data * times
    packed = compress(codec, content, magic=magic)
    assert decompress(codec, packed, max(len(content), 1), magic=magic) == content


@pytest.mark.parametrize("codec", CODECS)
def test_any_buffer_can_be_compressed_and_decompressed(codec: Compression) -> None:
    packed = compress(codec, memoryview(bytearray(b"some content")))
    assert decompress(codec, memoryview(bytearray(packed)), 100) == b"some content"


def test_compression_none_copies() -> None:
    assert compress(Compression.NONE, memoryview(b"some content")) == b"some content"


@pytest.mark.parametrize("codec", CODECS)
def test_output_may_reach_but_not_exceed_the_limit(codec: Compression) -> None:
    content = bytes(300_000)
    packed = compress(codec, content)
    assert decompress(codec, packed, len(content)) == content
    assert refusal(codec, packed, len(content) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 2])
def test_decompression_bomb_uses_no_more_memory_than_the_limit(codec: Compression, magic: int) -> None:
    bomb = compress(codec, bytes(64 * MIB), magic=magic)
    tracemalloc.start()
    try:
        assert refusal(codec, bomb, 2 * MIB, magic) is ErrorCode.MESSAGE_TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The frame itself is copied once where its header has to be mended.
    assert peak < 4 * MIB + 2 * len(bomb)


def test_snappy_block_that_declares_gigabytes_is_rejected_before_allocation() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"\0" * 20
    assert refusal(Compression.SNAPPY, claim) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"no stream of any kind", bytes(100)], ids=["empty", "zero", "text", "zeros"]
)
def test_malformed_streams_are_invalid(codec: Compression, data: bytes) -> None:
    if codec is Compression.SNAPPY and data == b"\0":
        assert decompress(codec, data, MIB) == b""  # a block that says it is empty, and is
    else:
        assert refusal(codec, data) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_streams_are_invalid_or_shorter(codec: Compression) -> None:
    packed = compress(codec, b"0123456789" * 40)
    verdicts: set[ErrorCode | bool] = set()
    for end in range(len(packed)):
        try:
            verdicts.add(len(decompress(codec, packed[:end], MIB)) < 400)
        except BrokerError as refused:
            verdicts.add(refused.code)
    assert verdicts <= {ErrorCode.INVALID_RECORD, True}


def test_unknown_codec_is_unsupported() -> None:
    assert refusal(5, b"x") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# ---- gzip ----


def test_gzip_members_are_joined_and_trailing_bytes_ignored() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, data, MIB) == b"one two"
    assert decompress(Compression.GZIP, data + b"tail", MIB) == b"one two"


def test_gzip_members_share_one_limit() -> None:
    data = gzip.compress(bytes(600)) * 2
    assert refusal(Compression.GZIP, data, 1000) is ErrorCode.MESSAGE_TOO_LARGE


def test_too_many_gzip_members_are_rejected() -> None:
    assert refusal(Compression.GZIP, gzip.compress(b"") * 1000) is ErrorCode.INVALID_RECORD


def test_wrong_gzip_checksum_is_invalid() -> None:
    data = bytearray(gzip.compress(b"content"))
    data[-5] ^= 1
    assert refusal(Compression.GZIP, bytes(data)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("level", [1, 9, -1, None])
def test_gzip_levels(level: int | None) -> None:
    assert zlib.decompress(compress(Compression.GZIP, b"content", level), wbits=31) == b"content"


# ---- snappy ----


def test_snappy_is_written_in_xerial_framing_of_32_kib_blocks() -> None:
    packed = compress(Compression.SNAPPY, bytes(70_000))
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    sizes = []
    position = 16
    while position < len(packed):
        size = int.from_bytes(packed[position : position + 4], "big")
        sizes.append(cramjam.snappy.decompress_raw_len(packed[position + 4 : position + 4 + size]))
        position += 4 + size
    assert sizes == [32768, 32768, 70_000 - 65536]


def test_raw_snappy_block_is_decompressed() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"content")), MIB) == b"content"


def test_concatenated_snappy_streams_are_joined() -> None:
    data = compress(Compression.SNAPPY, b"one ") + compress(Compression.SNAPPY, b"two")
    assert decompress(Compression.SNAPPY, data, MIB) == b"one two"


@pytest.mark.parametrize("size", [0, -1, 2**31 - 1, 100])
def test_snappy_block_with_wrong_size_is_invalid(size: int) -> None:
    packed = bytearray(compress(Compression.SNAPPY, b"content"))
    packed[16:20] = size.to_bytes(4, "big", signed=True)
    assert refusal(Compression.SNAPPY, bytes(packed)) is ErrorCode.INVALID_RECORD


# ---- lz4 ----


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (bytes(range(64)), 0x31120435)],
)
def test_xxh32_of_known_inputs(data: bytes, digest: int) -> None:
    assert xxh32(data) == digest


def test_lz4_is_written_as_independent_64_kib_blocks() -> None:
    packed = compress(Compression.LZ4, bytes(200_000))
    assert packed[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"
    assert packed[-4:] == bytes(4)


def test_incompressible_lz4_blocks_are_stored() -> None:
    noise = b"".join(zlib.crc32(bytes([n & 255, n >> 8])).to_bytes(4, "big") for n in range(5000))
    packed = compress(Compression.LZ4, noise)
    assert len(packed) == len(noise) + 7 + 4 + 4
    assert decompress(Compression.LZ4, packed, MIB) == noise


def test_lz4_header_checksum_covers_the_frame_magic_in_magic_0() -> None:
    usual, old = compress(Compression.LZ4, b"content"), compress(Compression.LZ4, b"content", magic=0)
    assert usual[6] == xxh32(usual[4:6]) >> 8 & 0xFF
    assert old[6] == xxh32(old[:6]) >> 8 & 0xFF
    assert usual[:6] + usual[7:] == old[:6] + old[7:]


def test_lz4_header_checksum_is_not_checked_in_magic_0_only() -> None:
    old = compress(Compression.LZ4, b"content", magic=0)
    assert decompress(Compression.LZ4, old, MIB, magic=0) == b"content"
    assert decompress(Compression.LZ4, compress(Compression.LZ4, b"content"), MIB, magic=0) == b"content"
    for magic in (1, 2):
        assert refusal(Compression.LZ4, old, magic=magic) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("position", "value"),
    [(4, 0x40), (4, 0x61), (4, 0xA0), (5, 0x41), (5, 0xC0), (5, 0x30)],
    ids=["dependent blocks", "dictionary", "version", "reserved", "reserved top", "block size"],
)
def test_lz4_frames_unsupported_by_kafka_are_rejected(position: int, value: int) -> None:
    packed = bytearray(compress(Compression.LZ4, b"content"))
    packed[position] = value
    packed[6] = xxh32(bytes(packed[4:6])) >> 8 & 0xFF
    assert refusal(Compression.LZ4, bytes(packed)) is ErrorCode.INVALID_RECORD


def test_lz4_frames_with_checksums_and_content_size() -> None:
    compressor = cramjam.lz4.Compressor(level=3, content_checksum=True, block_linked=False)
    compressor.compress(b"content" * 100)
    packed = bytes(compressor.finish())
    assert packed[4] & 0x04
    assert decompress(Compression.LZ4, packed, MIB) == b"content" * 100
    descriptor = bytes([0x68, 0x40]) + (7).to_bytes(8, "little")
    sized = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF])
    sized += compress(Compression.LZ4, b"content")[7:]
    assert decompress(Compression.LZ4, sized, MIB) == b"content"


@pytest.mark.parametrize(
    "data",
    [
        b"\x04\x22\x4d\x18\x68\x40" + bytes(8),
        b"\x04\x22\x4d\x18\x64\x40\xa7" + bytes(4) + bytes(3),
    ],
    ids=["before the header's checksum", "in the content's checksum"],
)
def test_truncated_lz4_frames_are_invalid(data: bytes) -> None:
    assert refusal(Compression.LZ4, data) is ErrorCode.INVALID_RECORD


def test_trailing_bytes_after_an_lz4_frame_are_ignored() -> None:
    assert decompress(Compression.LZ4, compress(Compression.LZ4, b"content") + b"tail", MIB) == b"content"


@pytest.mark.parametrize("level", [1, 9, 17, None])
def test_lz4_levels(level: int | None) -> None:
    packed = compress(Compression.LZ4, b"content" * 50, level)
    assert decompress(Compression.LZ4, packed, MIB) == b"content" * 50


# ---- zstd ----


def test_concatenated_zstd_frames_are_joined() -> None:
    data = compress(Compression.ZSTD, b"one ") + compress(Compression.ZSTD, b"two")
    assert decompress(Compression.ZSTD, data, MIB) == b"one two"


@pytest.mark.parametrize("level", [-5, 1, 19, None])
def test_zstd_levels(level: int | None) -> None:
    packed = compress(Compression.ZSTD, b"content" * 50, level)
    assert decompress(Compression.ZSTD, packed, MIB) == b"content" * 50
