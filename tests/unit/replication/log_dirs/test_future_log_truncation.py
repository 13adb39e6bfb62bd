"""The common end of a current and a future log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.leader_epoch_cache import LeaderEpochCache
from odradek.replication.log_dirs.alter_log_dirs import common_end


def log_of(epochs: list[int]) -> Any:
    """Return a log that consists of the leader epochs of its records."""
    epoch_cache = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        if epoch > epoch_cache.latest:
            epoch_cache.assign(epoch, offset)
    end = len(epochs)
    return SimpleNamespace(
        log_end_offset=end,
        epochs=epoch_cache,
        end_offset_for_epoch=lambda epoch: epoch_cache.end_offset_for(epoch, end),
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
def test_common_end_by_leader_epochs(current: list[int], future: list[int], end_offset: int) -> None:
    assert common_end(log_of(current), log_of(future)) == end_offset


@given(
    st.lists(st.integers(0, 3), max_size=8),
    st.lists(st.sampled_from([4, 6, 8]), max_size=5),
    st.lists(st.sampled_from([5, 7, 9]), max_size=5),
)
def test_common_end_never_exceeds_the_common_prefix(
    shared: list[int], only_current: list[int], only_future: list[int]
) -> None:
    current, future = sorted(shared) + sorted(only_current), sorted(shared) + sorted(only_future)
    common = next(
        (n for n, pair in enumerate(zip(current, future, strict=False)) if pair[0] != pair[1]), None
    )
    assert common_end(log_of(current), log_of(future)) <= (
        min(len(current), len(future)) if common is None else common
    )
