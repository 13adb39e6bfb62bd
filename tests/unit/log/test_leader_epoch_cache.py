"""Leader-epoch history: where an epoch ended, how history is cut, and its text."""

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


def test_an_empty_history_knows_nothing() -> None:
    epochs = LeaderEpochCache()
    assert epochs.latest == -1
    assert epochs.entries == ()
    assert epochs.end_offset_for(0, 9) == UNDEFINED
    assert epochs.end_offset_for(-1, 9) == UNDEFINED
    assert epochs.epoch_of(5) == -1
    assert not epochs.truncate_from_end(0)
    assert not epochs.truncate_from_start(0)


def test_assigning_says_whether_anything_changed() -> None:
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
def test_a_new_entry_removes_what_does_not_lie_before_it(
    entry: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    epochs = history((1, 10), (2, 20))
    epochs.assign(*entry)
    assert list(epochs.entries) == left
    assert epochs.latest == left[-1][0]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_nothing_begins_before_zero(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no epoch begins so"):
        LeaderEpochCache().assign(*entry)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all: where the oldest begins
        (2, (2, 40)),
        (3, (2, 40)),  # wrote nothing here: the largest smaller one
        (5, (5, 70)),
        (6, (5, 70)),
        (8, (8, 100)),  # the latest ends at the log's end
        (9, (-1, -1)),
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    assert history((2, 10), (5, 40), (8, 70)).end_offset_for(asked, 100) == answer


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (39, 2), (40, 5), (1000, 8)])
def test_which_epoch_wrote_an_offset(offset: int, epoch: int) -> None:
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
def test_cutting_the_end(end: int, left: list[tuple[int, int]]) -> None:
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
def test_cutting_the_start(start: int, left: list[tuple[int, int]]) -> None:
    epochs = history((2, 10), (5, 40), (8, 70))
    assert epochs.truncate_from_start(start) == (left != [(2, 10), (5, 40), (8, 70)])
    assert list(epochs.entries) == left
    assert epochs.latest == 8


def test_clearing_leaves_nothing() -> None:
    epochs = history((2, 10))
    epochs.clear()
    assert (epochs.entries, epochs.latest) == ((), -1)


def test_the_text_is_kafkas() -> None:
    assert format_epochs(history((0, 0), (3, 17)).entries) == "0\n2\n0 0\n3 17\n"
    assert format_epochs([]) == "0\n0\n"


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_a_checkpoint_without_entries_is_an_empty_history(text: str) -> None:
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
def test_what_is_not_a_checkpoint_is_refused_by_name(text: str) -> None:
    with pytest.raises(StorageError, match="data/leader-epoch-checkpoint"):
        parse_epochs(text, "data/leader-epoch-checkpoint")


entries = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20)


@given(entries)
def test_history_is_always_ordered_and_survives_its_text(assigned: list[tuple[int, int]]) -> None:
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
def test_ends_agree_with_a_search_from_one_entry_to_the_next(
    assigned: list[tuple[int, int]], asked: int
) -> None:
    epochs = history(*assigned)
    end = 1000
    smaller = [e for e in epochs.entries if e.leader_epoch <= asked]
    larger = [e for e in epochs.entries if e.leader_epoch > asked]
    if asked == -1 or (not larger and asked != epochs.latest):
        expected = (-1, -1)
    elif not larger:
        expected = (asked, end)
    else:
        expected = (smaller[-1].leader_epoch if smaller else asked, larger[0].start_offset)
    assert epochs.end_offset_for(asked, end) == expected


@given(entries, st.integers(0, 70), st.integers(0, 70))
def test_cutting_leaves_the_epochs_of_what_remains_as_they_were(
    assigned: list[tuple[int, int]], start: int, end: int
) -> None:
    epochs = history(*assigned)
    before = {offset: epochs.epoch_of(offset) for offset in range(start, end)}
    epochs.truncate_from_start(start)
    epochs.truncate_from_end(max(start, end))
    for offset, epoch in before.items():
        assert epochs.epoch_of(offset) == epoch
