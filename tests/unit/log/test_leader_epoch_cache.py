"""Leader epoch cache: end offsets, truncation, checkpoint format."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.leader_epoch_cache import (
    UNDEFINED,
    EpochEntry,
    LeaderEpochCache,
    format_epochs,
    parse_epochs,
)
from odradek.model.errors import StorageError


def history(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def test_empty_cache() -> None:
    epochs = LeaderEpochCache()
    assert epochs.latest == -1
    assert epochs.entries == ()
    assert epochs.end_offset_for(0, 9) == UNDEFINED
    assert epochs.end_offset_for(-1, 9) == UNDEFINED
    assert epochs.epoch_of(5) == -1
    assert not epochs.truncate_from_end(0)
    assert not epochs.truncate_from_start(0)


def test_assign_returns_whether_anything_changed() -> None:
    epochs = LeaderEpochCache()
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 20)
    assert epochs.assign(3, 20)
    assert epochs.entries == ((2, 10), (3, 20))
    assert epochs.latest == 3


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ((4, 30), [(1, 10), (2, 20), (4, 30)]),
        ((4, 20), [(1, 10), (4, 20)]),
        ((4, 5), [(4, 5)]),
        ((2, 15), [(1, 10), (2, 15)]),
        ((1, 25), [(1, 25)]),
        ((0, 40), [(0, 40)]),
    ],
)
def test_new_entry_removes_conflicting_entries(entry: tuple[int, int], left: list[tuple[int, int]]) -> None:
    epochs = history((1, 10), (2, 20))
    epochs.assign(*entry)
    assert list(epochs.entries) == left
    assert epochs.latest == left[-1][0]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_epoch_or_offset_is_rejected(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="must be >= 0"):
        LeaderEpochCache().assign(*entry)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all entries: start of the oldest
        (2, (2, 40)),
        (3, (2, 40)),  # no entry: the largest smaller epoch
        (5, (5, 70)),
        (6, (5, 70)),
        (8, (8, 100)),  # the latest ends at the log end offset
        (9, (-1, -1)),
    ],
)
def test_end_offset_for_epoch(epoch: int, end: tuple[int, int]) -> None:
    assert history((2, 10), (5, 40), (8, 70)).end_offset_for(epoch, 100) == end


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (39, 2), (40, 5), (1000, 8)])
def test_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert history((2, 10), (5, 40), (8, 70)).epoch_of(offset) == epoch


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (100, [(2, 10), (5, 40), (8, 70)]),
        (71, [(2, 10), (5, 40), (8, 70)]),
        (70, [(2, 10), (5, 40)]),
        (41, [(2, 10), (5, 40)]),
        (10, []),
        (0, []),
        (-1, [(2, 10), (5, 40), (8, 70)]),
    ],
)
def test_truncate_from_end(end: int, left: list[tuple[int, int]]) -> None:
    epochs = history((2, 10), (5, 40), (8, 70))
    assert epochs.truncate_from_end(end) == (len(left) < 3)
    assert list(epochs.entries) == left
    assert epochs.latest == (left[-1][0] if left else -1)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (9, [(2, 10), (5, 40), (8, 70)]),
        (10, [(2, 10), (5, 40), (8, 70)]),
        (11, [(2, 11), (5, 40), (8, 70)]),
        (40, [(5, 40), (8, 70)]),
        (69, [(5, 69), (8, 70)]),
        (500, [(8, 500)]),
    ],
)
def test_truncate_from_start(start: int, left: list[tuple[int, int]]) -> None:
    epochs = history((2, 10), (5, 40), (8, 70))
    assert epochs.truncate_from_start(start) == (left != [(2, 10), (5, 40), (8, 70)])
    assert list(epochs.entries) == left
    assert epochs.latest == 8


def test_clear() -> None:
    epochs = history((2, 10))
    epochs.clear()
    assert (epochs.entries, epochs.latest) == ((), -1)


def test_checkpoint_format_matches_kafka() -> None:
    assert format_epochs(history((0, 0), (3, 17)).entries) == "0\n2\n0 0\n3 17\n"
    assert format_epochs([]) == "0\n0\n"


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_checkpoint_without_entries_is_an_empty_cache(text: str) -> None:
    assert parse_epochs(text, "p").entries == ()


@pytest.mark.parametrize(
    "text",
    [
        "1\n",
        "1\n0\n",
        "x\n1\n0 0\n",
        "0\nx\n",
        "0\n1\n",
        "0\n2\n0 0\n",
        "0\n0\n0 0\n",
        "0\n1\n0\n",
        "0\n1\n0 0 0\n",
        "0\n1\na b\n",
        "0\n1\n-1 5\n",
        "0\n2\n0 0\n\n",
    ],
)
def test_malformed_epoch_checkpoint_is_rejected_with_its_path(text: str) -> None:
    with pytest.raises(StorageError, match="data/leader-epoch-checkpoint"):
        parse_epochs(text, "data/leader-epoch-checkpoint")


entries = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20)


@given(entries)
def test_entries_are_ordered_and_round_trip_through_the_checkpoint(assigned: list[tuple[int, int]]) -> None:
    epochs = history(*assigned)
    kept = epochs.entries
    assert all(
        a.leader_epoch < b.leader_epoch and a.start_offset < b.start_offset
        for a, b in itertools.pairwise(kept)
    )
    assert parse_epochs(format_epochs(kept), "p").entries == kept
    if assigned:
        assert epochs.latest == kept[-1].leader_epoch == assigned[-1][0]


@given(entries, st.integers(-1, 70))
def test_end_offsets_equal_a_linear_search(assigned: list[tuple[int, int]], epoch: int) -> None:
    epochs = history(*assigned)
    end = 1000
    smaller = [e for e in epochs.entries if e.leader_epoch <= epoch]
    larger = [e for e in epochs.entries if e.leader_epoch > epoch]
    if epoch == -1 or (not larger and epoch != epochs.latest):
        expected = (-1, -1)
    elif not larger:
        expected = (epoch, end)
    else:
        expected = (smaller[-1].leader_epoch if smaller else epoch, larger[0].start_offset)
    assert epochs.end_offset_for(epoch, end) == expected


@given(entries, st.integers(0, 70), st.integers(0, 70))
def test_truncation_keeps_the_epochs_of_remaining_offsets(
    assigned: list[tuple[int, int]], start: int, end: int
) -> None:
    epochs = history(*assigned)
    before = {offset: epochs.epoch_of(offset) for offset in range(start, end)}
    epochs.truncate_from_start(start)
    epochs.truncate_from_end(max(start, end))
    for offset, epoch in before.items():
        assert epochs.epoch_of(offset) == epoch
