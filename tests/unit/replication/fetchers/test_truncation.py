"""Truncation offsets of followers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.leader_epoch_cache import EpochEnd, LeaderEpochCache
from odradek.replication.fetchers.truncation import (
    LocalOffsets,
    OffsetReset,
    OffsetTruncation,
    reset_out_of_range,
    truncate_to_epoch_end,
    truncate_to_high_watermark,
)


class EpochLog:
    """A log as the list of the leader epochs of its records."""

    def __init__(self, epochs: list[int], high_watermark: int = 0) -> None:
        self.records = list(epochs)
        self.high_watermark = high_watermark
        self.cache = LeaderEpochCache()
        for offset, epoch in enumerate(epochs):
            if epoch > self.cache.latest:
                self.cache.assign(epoch, offset)

    def end_for(self, epoch: int) -> EpochEnd:
        return self.cache.end_offset_for(epoch, len(self.records))

    @property
    def offsets(self) -> LocalOffsets:
        return LocalOffsets(len(self.records), self.high_watermark, self.end_for)

    def truncate(self, offset: int) -> None:
        del self.records[offset:]
        self.cache.truncate_from_end(offset)


@pytest.mark.parametrize(
    ("own_epochs", "leader", "target"),
    [
        # The epoch is known here: the smaller of both ends.
        ([0, 0, 0], EpochEnd(0, 3), OffsetTruncation(3, True)),
        ([0, 0, 0], EpochEnd(0, 2), OffsetTruncation(2, True)),
        ([0, 0, 2, 2], EpochEnd(0, 9), OffsetTruncation(2, True)),
        ([0, 0, 2, 2], EpochEnd(2, 9), OffsetTruncation(4, True)),
        # The epoch is not known here: the end of our largest smaller epoch, and ask again.
        ([0, 0, 3, 3], EpochEnd(1, 3), OffsetTruncation(2, False)),
        ([0, 2, 2, 5], EpochEnd(4, 9), OffsetTruncation(3, False)),
        # Below all of our epochs.
        ([4, 4, 6], EpochEnd(3, 1), OffsetTruncation(0, True)),
        # Undefined: the high watermark, or the leader's offset if it gives one without an epoch.
        ([0, 0, 0], EpochEnd(-1, -1), OffsetTruncation(1, True)),
        ([0, 0, 0], EpochEnd(-1, 2), OffsetTruncation(2, True)),
        ([0, 0, 0], EpochEnd(-1, 9), OffsetTruncation(3, True)),
        # No epochs here: the leader's offset.
        ([], EpochEnd(3, 5), OffsetTruncation(0, True)),
    ],
)
def test_truncation_by_the_end_of_an_epoch(
    own_epochs: list[int], leader: EpochEnd, target: OffsetTruncation
) -> None:
    assert truncate_to_epoch_end(leader, EpochLog(own_epochs, high_watermark=1).offsets) == target


def test_log_without_epochs_is_truncated_to_the_high_watermark() -> None:
    offsets = LocalOffsets(9, 4, lambda _: EpochEnd(-1, -1))
    assert truncate_to_high_watermark(offsets) == OffsetTruncation(4, True)
    assert truncate_to_high_watermark(offsets._replace(log_end_offset=3)) == OffsetTruncation(3, True)


@given(
    st.lists(st.integers(0, 3), max_size=8),
    st.lists(st.sampled_from([4, 6, 8]), max_size=6),
    st.lists(st.sampled_from([5, 7, 9]), max_size=6),
)
def test_repeated_truncation_ends_at_the_point_of_divergence(
    shared: list[int], only_leader: list[int], only_follower: list[int]
) -> None:
    """No other epoch is the same in both: each leader epoch has one leader."""
    common = sorted(shared)
    leader, follower = EpochLog(common + sorted(only_leader)), EpochLog(common + sorted(only_follower))
    leader.cache.assign(10, len(leader.records))
    for _ in range(20):
        latest = follower.cache.latest
        target = (
            truncate_to_epoch_end(leader.end_for(latest), follower.offsets)
            if latest >= 0
            else truncate_to_high_watermark(follower.offsets)
        )
        follower.truncate(target.offset)
        if target.is_complete:
            break
    else:
        raise AssertionError("the truncation does not end")
    assert follower.records == leader.records[: len(follower.records)]
    known = bool(common) or not only_leader
    assert len(follower.records) == len(common) or not known


@pytest.mark.parametrize(
    ("own_end", "start", "end", "reset"),
    [
        (9, 0, 5, OffsetReset(5, False)),
        (9, 0, 9, OffsetReset(9, False)),
        (9, 12, 20, OffsetReset(12, True)),
        (9, 9, 20, OffsetReset(9, False)),
        (9, 3, 20, OffsetReset(9, False)),
        (0, 4, 4, OffsetReset(4, True)),
    ],
)
def test_reset_of_an_offset_out_of_range(own_end: int, start: int, end: int, reset: OffsetReset) -> None:
    assert reset_out_of_range(own_end, start, end) == reset
