"""Frames are complete, however the stream is split."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.frames import GROWN_BYTES_MAX, LARGE_BYTES, SCRATCH_BYTES, FrameReader


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big", signed=True) + body for body in bodies)


def feed(reader: FrameReader, data: bytes, step: int = 1 << 30) -> list[memoryview]:
    """Receive as a socket would: at most ``step`` bytes at once, and never more than the buffer takes."""
    frames, at = [], 0
    while at < len(data):
        room = reader.buffer()
        assert len(room) > 0
        count = min(len(room), step, len(data) - at)
        room[:count] = data[at : at + count]
        frames += reader.received(count)
        at += count
    return frames


def test_frame_may_be_split_at_any_byte() -> None:
    data = framed(b"first", b"", b"second")
    for cut in range(len(data) + 1):
        reader = FrameReader(100)
        got = feed(reader, data[:cut]) + feed(reader, data[cut:])
        assert [bytes(frame) for frame in got] == [b"first", b"", b"second"]


def test_several_frames_in_one_read() -> None:
    reader = FrameReader(100)
    data = framed(*[bytes([n]) * n for n in range(50)])
    reader.buffer()[: len(data)] = data
    assert [bytes(frame) for frame in reader.received(len(data))] == [bytes([n]) * n for n in range(50)]


@pytest.mark.parametrize(
    "size",
    [
        LARGE_BYTES,
        LARGE_BYTES + 1,
        SCRATCH_BYTES - 4,
        SCRATCH_BYTES,
        3 * SCRATCH_BYTES,
        5 * GROWN_BYTES_MAX // 2,
    ],
)
@pytest.mark.parametrize("step", [7919, 1 << 30])
def test_large_frames_between_small_ones(size: int, step: int) -> None:
    large = bytes(range(256)) * (size // 256) + bytes(size % 256)
    bodies = [b"before", large, b"after", large, b"end"]
    reader = FrameReader(4 * GROWN_BYTES_MAX)
    assert [bytes(frame) for frame in feed(reader, framed(*bodies), step)] == bodies


@pytest.mark.parametrize("size", [SCRATCH_BYTES, 5 * GROWN_BYTES_MAX // 2])
def test_previous_content_of_an_allocated_buffer_is_not_visible(size: int) -> None:
    """Buffers need not be zeroed: a frame is returned once all of it is received."""
    bodies = [bytes(size), b"small", bytes(size - 1)]
    reader = FrameReader(4 * GROWN_BYTES_MAX, allocate=lambda count: bytearray(b"\xee") * count)
    assert [bytes(frame) for frame in feed(reader, framed(*bodies), 100_003)] == bodies


def test_small_frames_across_the_end_of_the_scratch_buffer() -> None:
    bodies = [bytes([n]) * (LARGE_BYTES - 5 * n) for n in range(30)]
    assert [bytes(frame) for frame in feed(FrameReader(LARGE_BYTES), framed(*bodies))] == bodies


def test_rest_of_a_large_frame_is_received_without_copy() -> None:
    reader = FrameReader(SCRATCH_BYTES * 4, announced_bytes_max=SCRATCH_BYTES * 2)
    feed(reader, framed(bytes(SCRATCH_BYTES * 2))[:10])
    room = reader.buffer()
    assert len(room) == SCRATCH_BYTES * 2 - 6
    (frame,) = reader.received(len(room))
    room[-1] = 77
    assert frame[-1] == 77


def test_buffer_grows_with_received_bytes_not_with_the_announced_size() -> None:
    reader, arrived = FrameReader(1 << 30), 6
    feed(reader, GROWN_BYTES_MAX.to_bytes(4, "big") + bytes(arrived))
    while arrived < GROWN_BYTES_MAX:
        room = len(reader.buffer())
        assert arrived + room <= max(4 * arrived, 4096)
        frames = feed(reader, bytes(room))
        arrived += room
    assert [len(frame) for frame in frames] == [GROWN_BYTES_MAX]


def test_huge_frame_uses_memory_as_it_is_received() -> None:
    reader, arrived = FrameReader(1 << 30), 6
    feed(reader, (1 << 29).to_bytes(4, "big") + bytes(arrived))
    tracemalloc.start()
    try:
        while arrived < 4 * GROWN_BYTES_MAX:
            room = reader.buffer()[:SCRATCH_BYTES]
            reader.received(len(room))
            arrived += len(room)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(reader.buffer()) == (1 << 29) - arrived, "the rest is received directly into the mapping"
    assert peak <= 2 * GROWN_BYTES_MAX, "pages of a mapping are allocated when written"


def test_release_drops_received_bytes() -> None:
    reader = FrameReader(1 << 30)
    feed(reader, (1 << 30).to_bytes(4, "big") + bytes(3 * GROWN_BYTES_MAX))
    assert reader.partial_bytes == 4 + 3 * GROWN_BYTES_MAX
    reader.release()
    assert reader.partial_bytes == 0
    assert len(reader.buffer()) == SCRATCH_BYTES


def test_frame_owns_writable_bytes() -> None:
    reader = FrameReader(100)
    (first,) = feed(reader, framed(b"first"))
    (second,) = feed(reader, framed(b"other"))
    assert not first.readonly
    assert type(first.obj) is bytearray
    first[0] = ord("F")
    assert (bytes(first), bytes(second)) == (b"First", b"other")


@pytest.mark.parametrize("size", [-1, -(1 << 31), 101, (1 << 31) - 1])
def test_frame_size_out_of_bounds_is_rejected(size: int) -> None:
    reader = FrameReader(100)
    with pytest.raises(RemoteProtocolViolation, match=rf"100.*, got {size}"):
        feed(reader, size.to_bytes(4, "big", signed=True))


def test_frame_of_exactly_the_limit_is_accepted() -> None:
    assert feed(FrameReader(100), framed(bytes(100))) == [bytes(100)]


SMALL_STEPS_MAX = 5_000
SIZES = st.one_of(st.integers(0, 50), st.integers(LARGE_BYTES - 2, LARGE_BYTES + 2), st.integers(0, 100_000))


@given(st.lists(SIZES, max_size=6), st.lists(st.integers(1, 90_000), min_size=1, max_size=5))
def test_frames_do_not_depend_on_read_sizes(sizes: list[int], steps: list[int]) -> None:
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    data, reader, got, turn, position = framed(*bodies), FrameReader(1 << 20), [], 0, 0
    while position < len(data):
        # Feeding half a megabyte byte by byte takes seconds and adds no coverage.
        step = steps[turn % len(steps)] if turn < SMALL_STEPS_MAX else LARGE_BYTES
        got += feed(reader, data[position : position + step], step)
        position, turn = position + step, turn + 1
    assert [bytes(frame) for frame in got] == bodies
