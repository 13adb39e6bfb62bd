"""Truncation offsets of followers: where a log diverges from its leader's. Pure.

Two logs are equal up to the end of the last epoch that both know, in the shorter one. The follower asks for
the end of its latest epoch; the leader answers with that epoch or, if it has no such records, with its
largest smaller one:

- If the follower knows that epoch too, the logs diverge at the smaller of both ends.
- If not, the follower has none of the leader's records of that epoch, and only records up to the end of its
  own largest smaller epoch can be common. It truncates to there and asks again (KIP-279).
- Without epochs on either side, only committed records are certainly common: truncate to the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.log.leader_epoch_cache import EpochEnd
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET


class OffsetTruncation(NamedTuple):
    offset: int
    is_complete: bool
    """False if the leader must be asked again, for the epoch that is the latest after the truncation."""


class LocalOffsets(NamedTuple):
    """Offsets of the follower's log."""

    log_end_offset: int
    high_watermark: int
    end_offset_for_epoch: Callable[[int], EpochEnd]


class OffsetReset(NamedTuple):
    """Fetch offset after OFFSET_OUT_OF_RANGE."""

    offset: int
    is_full: bool
    """True if all records are removed and the log starts at ``offset``."""


def truncate_to_high_watermark(local: LocalOffsets) -> OffsetTruncation:
    """Return the truncation of a log without epochs."""
    return OffsetTruncation(min(local.high_watermark, local.log_end_offset), is_complete=True)


def truncate_to_epoch_end(leader: EpochEnd, local: LocalOffsets) -> OffsetTruncation:
    """Return the truncation for the leader's end of an epoch, from OffsetForLeaderEpoch or from Fetch."""
    if leader.end_offset == UNKNOWN_OFFSET:
        # The leader knows no epochs, or only later ones.
        return truncate_to_high_watermark(local)
    if leader.leader_epoch == NO_LEADER_EPOCH:
        return OffsetTruncation(min(leader.end_offset, local.log_end_offset), is_complete=True)
    own = local.end_offset_for_epoch(leader.leader_epoch)
    if own.end_offset == UNKNOWN_OFFSET:
        # The leader's epoch is smaller than the requested one, so its end is not after ours.
        return OffsetTruncation(min(leader.end_offset, local.log_end_offset), is_complete=True)
    if own.leader_epoch != leader.leader_epoch:
        return OffsetTruncation(min(own.end_offset, local.log_end_offset), is_complete=False)
    return OffsetTruncation(min(own.end_offset, leader.end_offset, local.log_end_offset), is_complete=True)


def reset_out_of_range(log_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> OffsetReset:
    """Return the fetch offset for a log end offset that the leader does not have.

    Beyond the leader's end, after an unclean election: truncate to it. Before the leader's start: start over
    there. In between, the leader's log has grown meanwhile: fetch again.
    """
    if leader_end_offset < log_end_offset:
        return OffsetReset(leader_end_offset, is_full=False)
    if leader_start_offset > log_end_offset:
        return OffsetReset(leader_start_offset, is_full=True)
    return OffsetReset(log_end_offset, is_full=False)
