"""Aborted transactions as a segment keeps them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    check_aborted,
    decode_aborted,
    encode_aborted,
    kept_before,
    overlapping,
)
from odradek.model.errors import StorageError

ENTRIES = [
    AbortedTransaction(1, 5, 12, 8),
    AbortedTransaction(2, 8, 15, 9),
    AbortedTransaction(1, 13, 20, 21),
    AbortedTransaction(3, 30, 31, 32),
]


def test_entries_are_read_as_they_were_written() -> None:
    content = encode_aborted(ENTRIES)
    assert len(content) == 4 * ENTRY_BYTES == 4 * 34
    assert decode_aborted(content, "it") == ENTRIES
    assert decode_aborted(b"", "it") == []


@pytest.mark.parametrize("content", [b"x", bytes(33), b"\0\1" + bytes(32)])
def test_a_file_that_is_cut_or_of_another_version_is_refused(content: bytes) -> None:
    with pytest.raises(StorageError, match="it"):
        decode_aborted(content, "it")


@pytest.mark.parametrize(
    "entry",
    [
        AbortedTransaction(1, 5, 9, 8),
        AbortedTransaction(-1, 5, 12, 8),
        AbortedTransaction(1, 12, 12, 8),
        AbortedTransaction(1, -2, 12, 8),
        AbortedTransaction(1, 5, 12, 14),
        AbortedTransaction(1, 5, 12, -1),
    ],
)
def test_what_cannot_be_true_of_a_segment_is_refused(entry: AbortedTransaction) -> None:
    check_aborted(ENTRIES, 10, "it")
    with pytest.raises(StorageError, match="it"):
        check_aborted([entry], 10, "it")
    with pytest.raises(StorageError, match="not behind"):
        check_aborted([*ENTRIES, ENTRIES[-1]], 10, "it")


def test_the_first_producer_and_the_first_offset_are_like_all_others() -> None:
    check_aborted([AbortedTransaction(0, 0, 12, 0)], 10, "it")


@pytest.mark.parametrize(("offset", "count"), [(12, 0), (13, 1), (20, 2), (21, 3), (99, 4)])
def test_a_cut_drops_those_whose_markers_go(offset: int, count: int) -> None:
    assert kept_before(ENTRIES, offset) == ENTRIES[:count]


@pytest.mark.parametrize(
    ("from_offset", "end_offset", "found", "is_all"),
    [
        (0, 5, [], True),
        (0, 6, [0], True),
        (12, 14, [0, 1, 2], True),
        (13, 14, [1, 2], True),
        (21, 40, [3], False),
        (16, 30, [2], True),
        (32, 99, [], False),
    ],
)
def test_a_search_ends_where_later_transactions_begin_behind_the_range(
    from_offset: int, end_offset: int, found: list[int], is_all: bool
) -> None:
    assert overlapping(ENTRIES, from_offset, end_offset) == ([ENTRIES[number] for number in found], is_all)


@given(st.integers(0, 40), st.integers(1, 40))
def test_no_transaction_that_overlaps_is_missed(from_offset: int, size: int) -> None:
    end_offset = from_offset + size
    wanted = [one for one in ENTRIES if one.last_offset >= from_offset and one.first_offset < end_offset]
    assert overlapping(ENTRIES, from_offset, end_offset)[0] == wanted
