"""Up to where a copied log holds what the log holds that it is a copy of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.leader_epoch_cache import LeaderEpochCache
from odradek.replication.alter_log_dirs import common_end


def log_of(epochs: list[int]) -> Any:
    """A log that is nothing but the epochs of its records."""
    known = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        if epoch > known.latest:
            known.assign(epoch, offset)
    end = len(epochs)
    return SimpleNamespace(
        log_end_offset=end, epochs=known, end_offset_for_epoch=lambda epoch: known.end_offset_for(epoch, end)
    )


@pytest.mark.parametrize(
    ("current", "future", "end_offset"),
    [
        ([0, 0, 0], [0, 0], 2),
        ([0, 0], [0, 0, 0], 2),
        ([0, 0, 0, 0, 2, 2, 2, 2], [0, 0, 1, 1, 1, 1], 2),
        ([0, 0, 2, 2], [0, 0, 0, 0, 1], 2),
        ([0, 0, 1], [0, 0, 1], 3),
        ([3, 3], [1, 1], 0),
        ([0, 2, 4], [0, 1, 3], 1),
        ([6, 8], [5, 7], 0),
        ([], [], 0),
    ],
)
def test_logs_are_the_same_up_to_where_their_epochs_part(
    current: list[int], future: list[int], end_offset: int
) -> None:
    assert common_end(log_of(current), log_of(future)) == end_offset


@given(
    st.lists(st.integers(0, 3), max_size=8),
    st.lists(st.sampled_from([4, 6, 8]), max_size=5),
    st.lists(st.sampled_from([5, 7, 9]), max_size=5),
)
def test_nothing_that_differs_is_taken_for_the_same(
    shared: list[int], here: list[int], there: list[int]
) -> None:
    current, future = sorted(shared) + sorted(here), sorted(shared) + sorted(there)
    same = next((n for n, pair in enumerate(zip(current, future, strict=False)) if pair[0] != pair[1]), None)
    assert common_end(log_of(current), log_of(future)) <= (
        min(len(current), len(future)) if same is None else same
    )
