"""The compiled and the pure-Python offset map and batch filter have equal results, also on broken input."""

from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS, PURE

from odradek.model.errors import BrokerError
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.records.layout import INT64_MAX, INT64_MIN

SEED = bytes(range(16))
NOW = 10_000

keys = st.none() | st.binary(max_size=1)
values = st.none() | st.binary(max_size=6)
headers = st.lists(st.tuples(st.text(max_size=3), values), max_size=2)
timestamps = st.integers(-1, 2 * NOW) | st.sampled_from([0, INT64_MAX])
rows = st.lists(st.tuples(timestamps, keys, values, headers, st.booleans()), max_size=6)


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0) -> bytes:
    """A batch of a log: with gaps, with or without a delete horizon, rarely not plain."""
    has_producer = draw(st.booleans())
    builder = BatchBuilder(
        base_offset,
        leader_epoch=draw(st.integers(-1, 5)),
        producer_id=9 if has_producer else -1,
        producer_epoch=draw(st.integers(0, 2)) if has_producer else -1,
        base_sequence=draw(st.integers(0, 9)) if has_producer else -1,
        transactional=draw(st.sampled_from([False] * 12 + [True])),
        control=draw(st.sampled_from([False] * 12 + [True])),
        append_time_ms=draw(st.none() | st.integers(0, 2 * NOW)),
        delete_horizon_ms=draw(st.none() | st.integers(NOW - 1, NOW + 1)),
    )
    offset = base_offset
    for timestamp, key, value, given_headers, gap in draw(rows):
        offset += gap
        builder.append(timestamp, key, value, given_headers, offset=offset)
        offset += 1
    return builder.build(last_offset=max(offset - 1, base_offset) + draw(st.integers(0, 2)))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches in offset order, the last one possibly truncated."""
    out = bytearray()
    offset = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 5))):
        batch = draw(batches(offset))
        offset = codec.read_headers(batch)[0].next_offset
        out += batch
    return bytes(out[: len(out) - draw(st.sampled_from([0, 0, 0, 1, 50, 100]))])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A log with some bytes changed, often with a matching CRC."""
    log = bytearray(draw(logs().filter(len)))
    for _ in range(draw(st.integers(1, 3))):
        log[draw(st.integers(0, len(log) - 1))] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, 3, 10]))
    end = 12 + int.from_bytes(log[8:12], "big", signed=True)
    if draw(st.booleans()) and 61 <= end <= len(log):
        log[17:21] = PURE.crc32c(log[21:end]).to_bytes(4, "big")
    return bytes(log)


def state(known: Any) -> tuple[int, int, list[int]]:
    probes = [b"", *(bytes((byte,)) for byte in range(256))]
    return known.count, known.latest_offset, [known.get(probe) for probe in probes]


def equal_outcome(call: Any) -> Any:
    results = []
    for implementation in IMPLEMENTATIONS:
        try:
            results.append(call(implementation))
        except BrokerError as error:
            results.append(error.code)
    assert results[0] == results[1]
    return results[0]


@given(
    logs() | damaged(), st.integers(-1, 12), st.integers(0, 8), st.integers(1, 8), st.sampled_from([0, 0, 7])
)
def test_put_batches_is_equal(log: bytes, from_offset: int, count_max: int, slots: int, shift: int) -> None:
    maps: list[Any] = []

    def put_batches(implementation: SimpleNamespace) -> Any:
        maps.append(implementation.OffsetMap(slots, SEED))
        return maps[-1].put_batches(bytes(shift) + log, shift, from_offset, count_max)

    equal_outcome(put_batches)
    compiled, python = maps
    assert state(compiled) == state(python)
    assert compiled.count <= min(count_max, slots)


@given(
    logs() | damaged(),
    st.dictionaries(st.binary(max_size=1), st.integers(0, 15), max_size=8),
    st.integers(-1, 20),
    st.lists(st.integers(0, 20), max_size=5),
    st.sampled_from([0, 100, INT64_MAX]),
    st.sampled_from([0, 0, 7]),
)
def test_filter_batches_is_equal(
    log: bytes, known: dict[bytes, int], latest: int, kept: list[int], retention: int, shift: int
) -> None:
    outputs = []

    def filter_batches(implementation: SimpleNamespace) -> Any:
        offsets = implementation.OffsetMap(8, SEED)
        for key, offset in known.items():
            offsets.put(key, offset)
        offsets.update_latest_offset(latest)
        outputs.append(bytearray(b"before"))
        last = array("q", sorted(kept))
        return implementation.filter_batches(
            bytes(shift) + log, shift, offsets, last, NOW, retention, outputs[-1]
        )

    result = equal_outcome(filter_batches)
    assert outputs[0] == outputs[1]
    if not isinstance(result, tuple):
        assert outputs[0] == b"before"


@given(
    batches(),
    st.none() | st.tuples(st.integers(57, 120), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF])),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, INT64_MAX]),
)
def test_filter_records_is_equal(
    batch: bytes, damage: tuple[int, int] | None, judged: bool, wants_horizon: bool, retention: int
) -> None:
    changed = bytearray(batch)
    if damage is not None:
        changed[min(damage[0], len(batch) - 1)] = damage[1]
    (header,) = codec.read_headers(changed)

    def filter_batches(implementation: SimpleNamespace) -> Any:
        offsets = implementation.OffsetMap(8, SEED)
        offsets.put(b"\x01", 2)
        by = offsets if judged else None
        return implementation.filter_records(changed[61:], header, by, NOW, retention, wants_horizon)

    equal_outcome(filter_batches)


@given(logs() | damaged(), st.integers(0, 30))
def test_header_at_is_equal_and_matches_read_headers(log: bytes, position: int) -> None:
    equal_outcome(lambda implementation: implementation.header_at(log, position))
    if isinstance(equal_outcome(lambda implementation: implementation.header_at(log, 0)), tuple):
        assert (
            COMPILED.header_at(log, 0)
            == COMPILED.read_headers(log[: COMPILED.header_at(log, 0).size_bytes])[0]
        )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_negative_positions_are_rejected_and_positions_after_the_end_return_nothing(
    implementation: SimpleNamespace,
) -> None:
    offsets = implementation.OffsetMap(1, SEED)
    with pytest.raises(ValueError, match="position"):
        offsets.put_batches(bytes(100), -1, 0, 1)
    with pytest.raises(ValueError, match="position"):
        implementation.filter_batches(bytes(100), -1, offsets, array("q"), 0, 0, bytearray())
    with pytest.raises(ValueError, match="position"):
        implementation.header_at(bytes(100), -1)
    assert offsets.put_batches(bytes(100), 200, 0, 1) == 200
    assert (
        implementation.filter_batches(bytes(100), 200, offsets, array("q"), 0, 0, bytearray()).position == 200
    )
    assert implementation.header_at(bytes(100), 200) is None


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, INT64_MAX)), max_size=30))
def test_offset_map_equals_a_dict(puts: list[tuple[bytes, int]]) -> None:
    model: dict[bytes, int] = {}
    maps = [implementation.OffsetMap(32, SEED) for implementation in IMPLEMENTATIONS]
    for key, offset in puts:
        model[key] = max(offset, model.get(key, -1))
        for made in maps:
            made.put(key, offset)
    for made in maps:
        assert made.count == len(model)
        assert {key: made.get(key) for key in model} == model
        assert made.get(b"x" * 21) == -1
        assert made.latest_offset == max(model.values(), default=-1)
        made.clear()
        assert (made.count, made.latest_offset, made.slots) == (0, -1, 32)
        assert [made.get(key) for key in model] == [-1] * len(model)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_full_map_rejects_new_keys_and_updates_known_ones(implementation: SimpleNamespace) -> None:
    offsets = implementation.OffsetMap(3, SEED)
    for index, key in enumerate((b"a", b"b", b"c")):
        offsets.put(key, index)
    with pytest.raises(ValueError, match="slots"):
        offsets.put(b"d", 9)
    offsets.put(b"a", 7)
    assert [offsets.get(key) for key in (b"a", b"b", b"c", b"d")] == [7, 1, 2, -1]
    assert (offsets.count, offsets.latest_offset) == (3, 7)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_invalid_slots_and_seeds_are_rejected(implementation: SimpleNamespace) -> None:
    for slots, seed in ((0, SEED), (-1, SEED), (1, b""), (1, bytes(17))):
        with pytest.raises(ValueError, match=r"16 bytes|slot"):
            implementation.OffsetMap(slots, seed)
    offsets = implementation.OffsetMap(1, SEED)
    with pytest.raises(ValueError, match="offset must be"):
        offsets.put(b"a", -1)
    offsets.update_latest_offset(INT64_MIN)
    assert offsets.latest_offset == -1


def test_hash_is_siphash_128() -> None:
    """Vectors of the reference implementation."""
    inputs = bytes(range(15))
    assert COMPILED.siphash(b"", SEED).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert COMPILED.siphash(inputs[:1], SEED).hex() == "da87c1d86b99af44347659119b22fc45"
    assert COMPILED.siphash(inputs, SEED).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"
