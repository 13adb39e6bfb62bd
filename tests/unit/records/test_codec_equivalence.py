"""The compiled and the pure-Python codec return equal results and bytes, and raise equal errors."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS, PURE

from odradek.model.errors import BrokerError, LocalProtocolViolation
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records import implementation as codec_implementation
from odradek.records.batch import BatchBuilder
from odradek.records.layout import INT64_MAX, INT64_MIN
from odradek.records.message_set import write_message_set

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3)
timestamps = st.integers(-1, 2**42) | st.sampled_from([0, INT64_MAX])
rows = st.lists(st.tuples(timestamps, blobs, blobs, headers), min_size=1, max_size=8)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A well-formed uncompressed batch with any valid header fields."""
    builder = BatchBuilder(
        draw(st.sampled_from([0, 0, 0, 7])),
        leader_epoch=draw(st.integers(-1, 5)),
        producer_id=draw(st.sampled_from([-1, -1, 9])),
        producer_epoch=draw(st.integers(-1, 2)),
        base_sequence=draw(st.integers(-1, 2)),
        transactional=draw(st.booleans()),
        control=draw(st.sampled_from([False, False, True])),
        append_time_ms=draw(st.none() | st.integers(0, 2**42)),
    )
    for timestamp, key, value, record_headers in draw(rows):
        builder.append(timestamp, key, value, record_headers)
    return builder.build()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A batch with some bytes changed, usually with a matching CRC."""
    data = bytearray(draw(batches()))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, 3, 10]))
    cut = draw(st.sampled_from([0, 0, 0, 1, 5]))
    data = data[: len(data) - cut]
    if draw(st.booleans()):
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = PURE.crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "returns", call()
    except BrokerError as error:
        return "raises", error.code


def equal_outcome(call: Callable[[SimpleNamespace], Any]) -> tuple[str, Any]:
    compiled, python = (outcome(partial(call, implementation)) for implementation in IMPLEMENTATIONS)
    assert compiled == python
    return compiled


def test_codec_uses_the_chosen_implementation() -> None:
    assert (codec.PURE_REASON is None) == codec.COMPILED
    assert COMPILED.pure_requested() != codec.COMPILED
    assert codec.scan_records is (COMPILED.scan_records if codec.COMPILED else PURE.scan_records)


def test_environment_variable_requests_pure_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_PURE", "1")
    assert COMPILED.pure_requested()
    monkeypatch.setenv("ODRADEK_PURE", "0")
    assert not COMPILED.pure_requested()
    monkeypatch.delenv("ODRADEK_PURE")
    assert not COMPILED.pure_requested()


def choose_again() -> ModuleType:
    spec = spec_from_file_location("implementation_chosen_again", codec_implementation.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pure_python_is_chosen_when_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_PURE", "1")
    chosen = choose_again()
    assert not chosen.COMPILED
    assert "ODRADEK_PURE" in chosen.PURE_REASON


def test_pure_python_is_chosen_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek.records.compiled.record_batch", None)
    chosen = choose_again()
    assert not chosen.COMPILED
    assert "cannot be imported" in chosen.PURE_REASON


def test_compiled_codec_is_chosen_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_PURE", raising=False)
    chosen = choose_again()
    assert chosen.COMPILED
    assert chosen.PURE_REASON is None


@pytest.mark.parametrize("function", [COMPILED.crc32c, COMPILED.crc32c_portable, PURE.crc32c])
def test_crc32c_of_a_known_input(function: Callable[[bytes], int]) -> None:
    assert function(b"123456789") == 0xE3069283
    assert function(b"") == 0


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 9000), st.integers(0, 2**32 - 1))
def test_crcs_are_equal_at_every_length_and_incrementally(
    seed: bytes, cut: int, size: int, value: int
) -> None:
    data = (seed * (size // max(len(seed), 1) + 1))[:size]
    expected = PURE.crc32c(data, value)
    assert COMPILED.crc32c(data, value) == expected
    assert COMPILED.crc32c_portable(data, value) == expected
    assert COMPILED.crc32c(data[cut:], COMPILED.crc32c(data[:cut], value)) == expected


@given(st.lists(batches(), max_size=3), st.binary(max_size=30), st.integers(0, 3))
def test_headers_are_equal(parts: list[bytes], tail: bytes, position: int) -> None:
    equal_outcome(lambda implementation: implementation.read_headers(b"".join(parts) + tail))
    equal_outcome(
        lambda implementation: implementation.read_headers(b"x" * position + b"".join(parts), position)
    )


@given(st.integers(0, 1), st.sampled_from(list(Compression)[:4]), rows, st.binary(max_size=20))
def test_headers_of_messages_are_equal(magic: int, kind: Compression, source_rows: Any, tail: bytes) -> None:
    builder = BatchBuilder()
    for timestamp, key, value, _ in source_rows:
        builder.append(timestamp, key, value)
    records = codec.decode(builder.build())
    data = write_message_set(records, magic, kind) + tail
    equal_outcome(lambda implementation: implementation.read_headers(data))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_negative_position_is_rejected(implementation: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="position"):
        implementation.read_headers(bytes(100), -40)


@given(damaged())
def test_headers_of_damaged_batches_are_equal(data: bytes) -> None:
    equal_outcome(lambda implementation: implementation.read_headers(data))


@given(
    batches() | damaged(),
    st.booleans(),
    st.sampled_from([0, 1000, INT64_MAX]),
    st.sampled_from([0, 1000, INT64_MAX]),
    st.sampled_from([70, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
def test_validation_in_place_leaves_equal_bytes(
    data: bytes, append_time: bool, before: int, after: int, bytes_max: int, compacted: bool, client: bool
) -> None:
    left = []

    def place(implementation: SimpleNamespace) -> Any:
        buffer = bytearray(data)
        header = implementation.validate_in_place(
            memoryview(buffer), 500, 3, 2**41, append_time, before, after, bytes_max, compacted, client
        )
        left.append(bytes(buffer))
        if header is None:
            assert buffer == data
        return header

    equal_outcome(place)
    assert left[0] == left[1]


@given(batches(), st.sampled_from(list(Compression)), st.booleans(), st.booleans())
def test_validation_in_place_of_compressed_batches_is_equal(
    data: bytes, kind: Compression, append_time: bool, spoil: bool
) -> None:
    """Both validate the decompressed records passed to them, not the bytes of the batch."""
    marked = bytearray(data)
    marked[22] |= kind
    marked[17:21] = PURE.crc32c(marked[21:]).to_bytes(4, "big")
    records = data[61:] + (b"x" if spoil else b"")
    args = (500, 3, 2**41, append_time, INT64_MAX, INT64_MAX, 1 << 20, False, False, records)
    left = []

    def place(implementation: SimpleNamespace) -> Any:
        left.append(bytearray(marked))
        return implementation.validate_in_place(left[-1], *args)

    _, header = equal_outcome(place)
    assert left[0] == left[1]
    if spoil or kind is Compression.NONE:
        assert header is None


@given(batches() | damaged(), st.booleans(), st.booleans(), st.integers(1, 3))
def test_scanned_records_are_equal(data: bytes, fixed: bool, compacted: bool, invalid_max: int) -> None:
    count = int.from_bytes(data[57:61], "big", signed=True)
    base = int.from_bytes(data[27:35], "big", signed=True)
    for window in ((INT64_MIN, INT64_MAX), (100, 2**41), (5, 4)):

        def scan(implementation: SimpleNamespace, window: tuple[int, int] = window) -> Any:
            return implementation.scan_records(data[61:], count, base, fixed, *window, compacted, invalid_max)

        equal_outcome(scan)


@given(batches() | damaged(), st.booleans())
def test_decoded_records_are_equal(data: bytes, fixed: bool) -> None:
    count = int.from_bytes(data[57:61], "big", signed=True)
    base = int.from_bytes(data[27:35], "big", signed=True)
    equal_outcome(lambda implementation: implementation.decode_records(data[61:], count, 7, base, fixed))


@given(st.binary(max_size=60), st.integers(-1, 5))
def test_random_bytes_have_equal_outcomes(data: bytes, count: int) -> None:
    equal_outcome(lambda implementation: implementation.decode_records(data, count, 0, 0, False))
    equal_outcome(
        lambda implementation: implementation.scan_records(
            data, count, 0, False, INT64_MIN, INT64_MAX, False, 5
        )
    )
    equal_outcome(lambda implementation: implementation.read_headers(data))


@given(rows, st.none() | st.integers(0, 2**40))
def test_appended_records_are_equal(source_rows: Any, base_timestamp: int | None) -> None:
    def gather(implementation: SimpleNamespace) -> Any:
        buffer = implementation.BatchBuffer(base_timestamp)
        sizes = [buffer.append(*row) for row in source_rows]
        state = (buffer.count, buffer.last_offset_delta, buffer.base_timestamp, buffer.max_timestamp)
        assert buffer.size_bytes == len(buffer.records()) == sizes[-1]
        return sizes, state, buffer.records()

    equal_outcome(gather)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_timestamps_over_the_full_int64_range(implementation: SimpleNamespace) -> None:
    buffer = implementation.BatchBuffer()
    for timestamp in (-1, INT64_MAX, 0):
        buffer.append(timestamp, None, None)
    decoded = implementation.decode_records(buffer.records(), 3, 0, -1, False)
    assert [record.timestamp for record in decoded] == [-1, INT64_MAX, 0]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_append_accepts_any_buffer(implementation: SimpleNamespace) -> None:
    plain, other = implementation.BatchBuffer(), implementation.BatchBuffer()
    plain.append(1, b"key", b"value", [("h", b"x")])
    other.append(1, bytearray(b"key"), memoryview(b"-value-")[1:6], iter([("h", memoryview(b"x"))]))
    assert plain.records() == other.records()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "arguments",
    [(-2, None, None), (5, None, None, [(None, b"x")]), (5, None, None, (), 3), (5, None, None, (), 2**31)],
    ids=[
        "negative timestamp",
        "header without key",
        "offset delta that does not rise",
        "offset delta too large",
    ],
)
def test_append_rejects_invalid_records(implementation: SimpleNamespace, arguments: tuple[Any, ...]) -> None:
    buffer = implementation.BatchBuffer()
    buffer.append(1, b"k", b"v", (), 3)
    before = buffer.records()
    with pytest.raises(LocalProtocolViolation):
        buffer.append(*arguments)
    assert buffer.records() == before
    assert buffer.count == 1


def test_append_rejects_batches_above_2_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.records.pure.record_batch.INT32_MAX", 200)
    buffer = PURE.BatchBuffer()
    buffer.append(1, None, bytes(100))
    with pytest.raises(LocalProtocolViolation):
        buffer.append(1, None, bytes(100))
    assert buffer.count == 1


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("field", ["text", 5, [b"x"]])
def test_append_rejects_fields_that_are_not_bytes(implementation: SimpleNamespace, field: Any) -> None:
    buffer = implementation.BatchBuffer()
    with pytest.raises(TypeError):
        buffer.append(1, field, None)
    with pytest.raises(TypeError):
        buffer.append(1, None, field)
    assert buffer.count == buffer.size_bytes == 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_large_batches_without_the_lock_are_equal(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder()
    for index in range(300):
        builder.append(1000 + index, b"k", bytes(200))
    data = bytearray(builder.build())
    header = implementation.validate_in_place(
        memoryview(data), 40, 2, 9, False, INT64_MAX, INT64_MAX, 1 << 20, True, True
    )
    assert header == PURE.read_headers(data)[0]
    assert header.base_offset == 40
    assert implementation.crc32c(data[21:]) == header.crc
    assert (
        implementation.scan_records(data[61:], 300, 1000, False, INT64_MIN, INT64_MAX, True, 1).max_timestamp
        == 1299
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_validation_in_place_skips_read_only_buffers(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    args = (0, 0, 9, False, INT64_MAX, INT64_MAX, 1 << 20, False, True)
    assert implementation.validate_in_place(builder.build(), *args) is None
    assert implementation.validate_in_place(bytearray(builder.build()), *args) is not None


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_headers_and_records_are_tuples(implementation: SimpleNamespace) -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    header = implementation.read_headers(builder.build())[0]
    assert hash(header) == hash(tuple(header))
    record = implementation.decode_records(builder.build()[61:], 1, 0, 1, False)[0]
    assert hash(record) == hash((0, 1, b"k", b"v", ()))
    assert record == (0, 1, b"k", b"v", ())


@given(rows, st.sampled_from(list(Compression)))
def test_build_and_decode_round_trip(source_rows: Any, kind: Compression) -> None:
    builder = BatchBuilder(50, compression=kind)
    for row in source_rows:
        builder.append(*row)
    decoded = codec.decode(builder.build())
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in decoded] == source_rows
    assert [r.offset for r in decoded] == list(range(50, 50 + len(source_rows)))
