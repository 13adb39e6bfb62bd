"""The compiled codec and its Python twin agree: on what is right, on what is wrong, and on the bytes."""

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import odradek.records
from odradek.model.errors import BrokerError, LocalProtocolViolation
from odradek.model.protocol_enums import Compression
from odradek.records import _codec, codec
from odradek.records.batch import BatchBuilder
from odradek.records.layout import INT64_MAX, INT64_MIN
from odradek.records.message_set import write_message_set
from odradek.records.pure import record_batch

TWINS = (_codec, record_batch)

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3)
timestamps = st.integers(-1, 2**42) | st.sampled_from([0, INT64_MAX])
rows = st.lists(st.tuples(timestamps, blobs, blobs, headers), min_size=1, max_size=8)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A well-formed plain batch with any header fields that make sense."""
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
    for timestamp, key, value, given_headers in draw(rows):
        builder.append(timestamp, key, value, given_headers)
    return builder.build()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A batch with some bytes changed, and usually a checksum that hides it."""
    data = bytearray(draw(batches()))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, 3, 10]))
    cut = draw(st.sampled_from([0, 0, 0, 1, 5]))
    data = data[: len(data) - cut]
    if draw(st.booleans()):
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = record_batch.crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "gives", call()
    except BrokerError as refusal:
        return "refuses", refusal.code


def agreed(call: Callable[[ModuleType], Any]) -> tuple[str, Any]:
    compiled, python = (outcome(lambda twin=twin: call(twin)) for twin in TWINS)
    assert compiled == python
    return compiled


def test_the_compiled_codec_is_the_one_in_use() -> None:
    assert (codec.PURE_REASON is None) == codec.COMPILED
    assert _codec.pure_asked() != codec.COMPILED
    assert codec.walk is (_codec.walk if codec.COMPILED else record_batch.walk)


def test_the_environment_can_ask_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_PURE", "1")
    assert _codec.pure_asked()
    monkeypatch.setenv("ODRADEK_PURE", "0")
    assert not _codec.pure_asked()
    monkeypatch.delenv("ODRADEK_PURE")
    assert not _codec.pure_asked()


def chosen_anew() -> ModuleType:
    spec = spec_from_file_location("codec_chosen_anew", codec.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_python_is_chosen_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_PURE", "1")
    fresh = chosen_anew()
    assert not fresh.COMPILED
    assert "ODRADEK_PURE" in fresh.PURE_REASON
    assert fresh.walk is record_batch.walk


def test_python_stands_in_when_the_extension_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek.records._codec", None)
    monkeypatch.delattr(odradek.records, "_codec")
    fresh = chosen_anew()
    assert not fresh.COMPILED
    assert "cannot be used" in fresh.PURE_REASON
    assert record_batch.pure_asked()


def test_the_compiled_codec_is_chosen_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_PURE", raising=False)
    fresh = chosen_anew()
    assert fresh.COMPILED
    assert fresh.PURE_REASON is None
    assert fresh.walk is _codec.walk


@pytest.mark.parametrize("function", [_codec.crc32c, _codec.crc32c_portable, record_batch.crc32c])
def test_crc32c_of_a_known_text(function: Callable[[bytes], int]) -> None:
    assert function(b"123456789") == 0xE3069283
    assert function(b"") == 0


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 9000), st.integers(0, 2**32 - 1))
def test_checksums_agree_at_every_length_and_continue(seed: bytes, cut: int, size: int, value: int) -> None:
    data = (seed * (size // max(len(seed), 1) + 1))[:size]
    wanted = record_batch.crc32c(data, value)
    assert _codec.crc32c(data, value) == wanted
    assert _codec.crc32c_portable(data, value) == wanted
    assert _codec.crc32c(data[cut:], _codec.crc32c(data[:cut], value)) == wanted


@given(st.lists(batches(), max_size=3), st.binary(max_size=30), st.integers(0, 3))
def test_headers_agree(parts: list[bytes], tail: bytes, position: int) -> None:
    agreed(lambda twin: twin.read_headers(b"".join(parts) + tail))
    agreed(lambda twin: twin.read_headers(b"x" * position + b"".join(parts), position))


@given(st.integers(0, 1), st.sampled_from(list(Compression)[:4]), rows, st.binary(max_size=20))
def test_headers_of_old_messages_agree(magic: int, kind: Compression, given_rows: Any, tail: bytes) -> None:
    builder = BatchBuilder()
    for timestamp, key, value, _ in given_rows:
        builder.append(timestamp, key, value)
    records = codec.decode(builder.build())
    data = write_message_set(records, magic, kind) + tail
    agreed(lambda twin: twin.read_headers(data))


@pytest.mark.parametrize("twin", TWINS)
def test_no_header_is_read_before_the_buffer(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="position"):
        twin.read_headers(bytes(100), -40)


@given(damaged())
def test_headers_of_damaged_batches_agree(data: bytes) -> None:
    agreed(lambda twin: twin.read_headers(data))


@given(
    batches() | damaged(),
    st.booleans(),
    st.sampled_from([0, 1000, INT64_MAX]),
    st.sampled_from([0, 1000, INT64_MAX]),
    st.sampled_from([70, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
def test_placing_agrees_and_leaves_equal_bytes(
    data: bytes, append_time: bool, before: int, after: int, bytes_max: int, compacted: bool, client: bool
) -> None:
    left = []

    def place(twin: ModuleType) -> Any:
        buffer = bytearray(data)
        header = twin.accept_in_place(
            memoryview(buffer), 500, 3, 2**41, append_time, before, after, bytes_max, compacted, client
        )
        left.append(bytes(buffer))
        if header is None:
            assert buffer == data
        return header

    agreed(place)
    assert left[0] == left[1]


@given(batches(), st.sampled_from(list(Compression)), st.booleans(), st.booleans())
def test_placing_a_compressed_batch_agrees(
    data: bytes, kind: Compression, append_time: bool, spoil: bool
) -> None:
    """The compiled part and its twin look at the records they are given, not at the batch's own bytes."""
    marked = bytearray(data)
    marked[22] |= kind
    marked[17:21] = record_batch.crc32c(marked[21:]).to_bytes(4, "big")
    records = data[61:] + (b"x" if spoil else b"")
    args = (500, 3, 2**41, append_time, INT64_MAX, INT64_MAX, 1 << 20, False, False, records)
    left = []

    def place(twin: ModuleType) -> Any:
        left.append(bytearray(marked))
        return twin.accept_in_place(left[-1], *args)

    _, header = agreed(place)
    assert left[0] == left[1]
    if spoil or kind is Compression.NONE:
        assert header is None


@given(batches() | damaged(), st.booleans(), st.booleans(), st.integers(1, 3))
def test_walks_agree(data: bytes, fixed: bool, compacted: bool, faults_max: int) -> None:
    count = int.from_bytes(data[57:61], "big", signed=True)
    base = int.from_bytes(data[27:35], "big", signed=True)
    for window in ((INT64_MIN, INT64_MAX), (100, 2**41), (5, 4)):
        agreed(
            lambda twin, window=window: twin.walk(
                data[61:], count, base, fixed, *window, compacted, faults_max
            )
        )


@given(batches() | damaged(), st.booleans())
def test_decoded_records_agree(data: bytes, fixed: bool) -> None:
    count = int.from_bytes(data[57:61], "big", signed=True)
    base = int.from_bytes(data[27:35], "big", signed=True)
    agreed(lambda twin: twin.decode_records(data[61:], count, 7, base, fixed))


@given(st.binary(max_size=60), st.integers(-1, 5))
def test_noise_is_judged_alike(data: bytes, count: int) -> None:
    agreed(lambda twin: twin.decode_records(data, count, 0, 0, False))
    agreed(lambda twin: twin.walk(data, count, 0, False, INT64_MIN, INT64_MAX, False, 5))
    agreed(lambda twin: twin.read_headers(data))


@given(rows, st.none() | st.integers(0, 2**40))
def test_appending_agrees(given_rows: Any, base_timestamp: int | None) -> None:
    def gather(twin: ModuleType) -> Any:
        buffer = twin.BatchBuffer(base_timestamp)
        sizes = [buffer.append(*row) for row in given_rows]
        state = (buffer.count, buffer.last_offset_delta, buffer.base_timestamp, buffer.max_timestamp)
        assert buffer.size_bytes == len(buffer.records()) == sizes[-1]
        return sizes, state, buffer.records()

    agreed(gather)


@pytest.mark.parametrize("twin", TWINS)
def test_the_widest_span_of_time_survives(twin: ModuleType) -> None:
    buffer = twin.BatchBuffer()
    for timestamp in (-1, INT64_MAX, 0):
        buffer.append(timestamp, None, None)
    decoded = twin.decode_records(buffer.records(), 3, 0, -1, False)
    assert [record.timestamp for record in decoded] == [-1, INT64_MAX, 0]


@pytest.mark.parametrize("twin", TWINS)
def test_appended_fields_may_be_any_buffer(twin: ModuleType) -> None:
    plain, other = twin.BatchBuffer(), twin.BatchBuffer()
    plain.append(1, b"key", b"value", [("h", b"x")])
    other.append(1, bytearray(b"key"), memoryview(b"-value-")[1:6], iter([("h", memoryview(b"x"))]))
    assert plain.records() == other.records()


@pytest.mark.parametrize("twin", TWINS)
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
def test_what_cannot_be_said_is_refused_and_not_added(twin: ModuleType, arguments: tuple[Any, ...]) -> None:
    buffer = twin.BatchBuffer()
    buffer.append(1, b"k", b"v", (), 3)
    before = buffer.records()
    with pytest.raises(LocalProtocolViolation):
        buffer.append(*arguments)
    assert buffer.records() == before
    assert buffer.count == 1


def test_a_batch_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batch, "INT32_MAX", 200)
    buffer = record_batch.BatchBuffer()
    buffer.append(1, None, bytes(100))
    with pytest.raises(LocalProtocolViolation):
        buffer.append(1, None, bytes(100))
    assert buffer.count == 1


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("field", ["text", 5, [b"x"]])
def test_fields_that_are_no_bytes_are_refused_and_not_added(twin: ModuleType, field: Any) -> None:
    buffer = twin.BatchBuffer()
    with pytest.raises(TypeError):
        buffer.append(1, field, None)
    with pytest.raises(TypeError):
        buffer.append(1, None, field)
    assert buffer.count == buffer.size_bytes == 0


@pytest.mark.parametrize("twin", TWINS)
def test_large_batches_are_handled_without_the_lock_alike(twin: ModuleType) -> None:
    builder = BatchBuilder()
    for index in range(300):
        builder.append(1000 + index, b"k", bytes(200))
    data = bytearray(builder.build())
    header = twin.accept_in_place(
        memoryview(data), 40, 2, 9, False, INT64_MAX, INT64_MAX, 1 << 20, True, True
    )
    assert header == record_batch.read_headers(data)[0]
    assert header.base_offset == 40
    assert twin.crc32c(data[21:]) == header.crc
    assert twin.walk(data[61:], 300, 1000, False, INT64_MIN, INT64_MAX, True, 1).max_timestamp == 1299


@pytest.mark.parametrize("twin", TWINS)
def test_a_read_only_buffer_is_left_to_the_caller(twin: ModuleType) -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    args = (0, 0, 9, False, INT64_MAX, INT64_MAX, 1 << 20, False, True)
    assert twin.accept_in_place(builder.build(), *args) is None
    assert twin.accept_in_place(bytearray(builder.build()), *args) is not None


@pytest.mark.parametrize("twin", TWINS)
def test_named_tuples_behave_as_tuples(twin: ModuleType) -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    header = twin.read_headers(builder.build())[0]
    assert hash(header) == hash(tuple(header))
    record = twin.decode_records(builder.build()[61:], 1, 0, 1, False)[0]
    assert hash(record) == hash((0, 1, b"k", b"v", ()))
    assert record == (0, 1, b"k", b"v", ())


@given(rows, st.sampled_from(list(Compression)))
def test_what_is_built_is_decoded_again(given_rows: Any, kind: Compression) -> None:
    builder = BatchBuilder(50, compression=kind)
    for row in given_rows:
        builder.append(*row)
    decoded = codec.decode(builder.build())
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in decoded] == given_rows
    assert [r.offset for r in decoded] == list(range(50, 50 + len(given_rows)))
