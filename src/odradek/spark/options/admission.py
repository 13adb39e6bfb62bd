"""How far the next batch reads. Pure.

A batch moves forward by what there is, or by a limit that partitions share in proportion to their lag. Three
moves read nothing, and only write a place down in the checkpoint for the batch after: a new partition appears
with the start of its log, one whose log was lost is set back to what is there, one that is gone disappears.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import Offsets


@dataclass(frozen=True)
class Pace:
    """The options that limit a batch from above and from below."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = 0

    def shall_wait(self, lag: int, since_last_ms: int | None) -> bool:
        """Whether a batch of so many offsets shall wait for more, so long after the last one."""
        if self.offsets_min is None or since_last_ms is None or since_last_ms >= self.delay_max_ms:
            return False
        return lag < self.offsets_min


def bounded(ends: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int] | None) -> Offsets:
    """Ends, not beyond a target: a run may read only what was there when it began."""
    if target is None:
        return dict(ends)
    return {one: min(end, target[one]) for one, end in ends.items() if one in target}


def lag(start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Offsets between where a query stands and the ends of logs."""
    return sum(max(ends[one] - begin, 0) for one, begin in start.items() if one in ends)


def next_offsets(
    start: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    resume: Mapping[TopicPartition, int | None],
    offsets_max: int | None,
) -> Offsets:
    """Where the next batch ends. ``resume`` says where to go on after a loss; None: the partition is gone."""
    steady = {one: begin for one, begin in start.items() if one not in resume}
    reached = _proportional(steady, ends, offsets_max)
    reached.update((one, place) for one, place in resume.items() if place is not None)
    reached.update((one, log_starts[one]) for one in ends if one not in start)
    return reached


def _proportional(
    start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], offsets_max: int | None
) -> Offsets:
    """Shares of the limit by lag. A share below one is one, so that a short partition is not starved."""
    lags = {one: max(ends.get(one, begin) - begin, 0) for one, begin in start.items()}
    total = sum(lags.values())
    if offsets_max is None or total <= offsets_max:
        return {one: begin + lags[one] for one, begin in start.items()}
    shares = {one: max(offsets_max * size // total, 1) if size else 0 for one, size in lags.items()}
    return {one: begin + min(shares[one], lags[one]) for one, begin in start.items()}
