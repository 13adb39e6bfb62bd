"""Transaction index: format, validation, search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    check_aborted,
    decode_aborted,
    encode_aborted,
    entries_before,
    overlapping_transactions,
)
from odradek.model.errors import StorageError

ENTRIES = [
    AbortedTransaction(1, 5, 12, 8),
    AbortedTransaction(2, 8, 15, 9),
    AbortedTransaction(1, 13, 20, 21),
    AbortedTransaction(3, 30, 31, 32),
]


def test_transaction_index_round_trip() -> None:
    content = encode_aborted(ENTRIES)
    assert len(content) == 4 * ENTRY_BYTES == 4 * 34
    assert decode_aborted(content, "path") == ENTRIES
    assert decode_aborted(b"", "path") == []


@pytest.mark.parametrize("content", [b"x", bytes(33), b"\0\1" + bytes(32)])
def test_truncated_file_or_unknown_version_is_rejected(content: bytes) -> None:
    with pytest.raises(StorageError, match="path"):
        decode_aborted(content, "path")


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
def test_invalid_entries_are_rejected(entry: AbortedTransaction) -> None:
    check_aborted(ENTRIES, 10, "path")
    with pytest.raises(StorageError, match="path"):
        check_aborted([entry], 10, "path")
    with pytest.raises(StorageError, match="last offset must be > 31"):
        check_aborted([*ENTRIES, ENTRIES[-1]], 10, "path")


def test_producer_id_0_and_offset_0_are_valid() -> None:
    check_aborted([AbortedTransaction(0, 0, 12, 0)], 10, "path")


@pytest.mark.parametrize(("offset", "count"), [(12, 0), (13, 1), (20, 2), (21, 3), (99, 4)])
def test_truncation_drops_entries_of_removed_markers(offset: int, count: int) -> None:
    assert entries_before(ENTRIES, offset) == ENTRIES[:count]


@pytest.mark.parametrize(
    ("from_offset", "end_offset", "overlapping", "is_complete"),
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
def test_search_ends_at_the_last_stable_offset(
    from_offset: int, end_offset: int, overlapping: list[int], is_complete: bool
) -> None:
    assert overlapping_transactions(ENTRIES, from_offset, end_offset) == (
        [ENTRIES[number] for number in overlapping],
        is_complete,
    )


@given(st.integers(0, 40), st.integers(1, 40))
def test_every_overlapping_transaction_is_found(from_offset: int, size: int) -> None:
    end_offset = from_offset + size
    expected = [
        entry for entry in ENTRIES if entry.last_offset >= from_offset and entry.first_offset < end_offset
    ]
    assert overlapping_transactions(ENTRIES, from_offset, end_offset)[0] == expected
