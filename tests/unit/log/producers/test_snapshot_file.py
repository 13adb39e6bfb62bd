"""Snapshots of producers: what is written is read back, and nothing else is believed."""

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
    """Batches of coordinators have no sequences."""
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
def test_what_is_written_is_read_back(given: list[ProducerStateEntry]) -> None:
    assert decode_snapshot(encode_snapshot(given), "it") == given


def test_of_each_producer_the_last_batch_is_kept() -> None:
    batches = tuple(BatchMetadata(number, number, number, number, 1000) for number in range(5))
    [kept] = decode_snapshot(encode_snapshot([ProducerStateEntry(7, 0, -1, 1000, -1, batches)]), "it")
    assert kept.batches == batches[-1:]


@given(st.lists(producers(), max_size=3), st.data())
def test_no_flipped_bit_and_no_cut_is_believed(given: list[ProducerStateEntry], data: st.DataObject) -> None:
    content = bytearray(encode_snapshot(given))
    with pytest.raises(StorageError):
        decode_snapshot(bytes(content[: data.draw(st.integers(0, len(content) - 1))]), "it")
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StorageError):
        decode_snapshot(bytes(content), "it")


@pytest.mark.parametrize("count", [-1, 1, 2**31 - 1])
def test_a_count_that_the_file_has_no_room_for_is_not_believed(count: int) -> None:
    rest = count.to_bytes(4, "big", signed=True)
    content = b"\0\1" + crc32c(rest).to_bytes(4, "big") + rest
    with pytest.raises(StorageError, match="do not fit"):
        decode_snapshot(content, "it")
