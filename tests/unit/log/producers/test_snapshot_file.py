"""Producer snapshot files: round trip and corruption."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.producers.producer_states import BatchMetadata, ProducerStateEntry
from odradek.log.producers.snapshot_file import decode_snapshot, encode_snapshot
from odradek.model.errors import StorageError
from odradek.model.ids import NO_SEQUENCE
from odradek.records.codec import crc32c

OFFSETS = st.integers(0, 2**62)


@st.composite
def producers(draw: st.DrawFn) -> ProducerStateEntry:
    """Producer state entries; batches of coordinators have no sequences."""
    timestamp, offset = draw(OFFSETS), draw(OFFSETS)
    sequence = draw(st.just(NO_SEQUENCE) | st.integers(0, 2**31 - 1))
    delta = draw(st.integers(0, min(2**31 - 1, offset)))
    first_sequence = NO_SEQUENCE if sequence == NO_SEQUENCE else (sequence - delta) % 2**31
    batch = BatchMetadata(first_sequence, sequence, offset - delta, offset, timestamp)
    return ProducerStateEntry(
        draw(OFFSETS),
        draw(st.integers(0, 2**15 - 1)),
        draw(st.integers(-1, 2**31 - 1)),
        timestamp,
        draw(st.integers(-1, 2**62)),
        draw(st.sampled_from([(), (batch,)])),
    )


@given(st.lists(producers(), max_size=5))
def test_snapshot_round_trip(entries: list[ProducerStateEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries), "path") == entries


def test_snapshot_contains_the_last_batch_of_each_producer() -> None:
    batches = tuple(BatchMetadata(number, number, number, number, 1000) for number in range(5))
    [kept] = decode_snapshot(encode_snapshot([ProducerStateEntry(7, 0, -1, 1000, -1, batches)]), "path")
    assert kept.batches == batches[-1:]


@given(st.lists(producers(), max_size=3), st.data())
def test_corrupt_or_truncated_snapshot_is_rejected(
    entries: list[ProducerStateEntry], data: st.DataObject
) -> None:
    content = bytearray(encode_snapshot(entries))
    with pytest.raises(StorageError):
        decode_snapshot(bytes(content[: data.draw(st.integers(0, len(content) - 1))]), "path")
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StorageError):
        decode_snapshot(bytes(content), "path")


@pytest.mark.parametrize("count", [-1, 1, 2**31 - 1])
def test_snapshot_with_an_invalid_count_is_rejected(count: int) -> None:
    rest = count.to_bytes(4, "big", signed=True)
    content = b"\0\1" + crc32c(rest).to_bytes(4, "big") + rest
    with pytest.raises(StorageError, match="do not fit"):
        decode_snapshot(content, "path")
