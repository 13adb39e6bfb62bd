"""What a start does about the producers of a log where they cannot be taken as they were left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.log.producers.producer_state_manager import (
    ProducerStateManager,
    load_producer_state,
    remove_snapshots,
)
from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.model.errors import StorageError


def producers_before(
    place: SegmentContext, segments: list[LogSegment], first: int, snapshots: list[int]
) -> ProducerStateManager:
    """The producers where a scan begins. What was known of later ones goes: the scan will tell."""
    if not segments:
        return ProducerStateManager(0)
    base_offset = segments[first].base_offset
    producers = load_producer_state(place, segments[:first], snapshots, base_offset)
    remove_snapshots(place, [offset for offset in snapshots if offset > base_offset])
    return producers


def mend_aborted(place: SegmentContext, segments: list[LogSegment], snapshots: list[int]) -> None:
    """Build indexes of aborted transactions anew that cannot be true."""
    for number, segment in enumerate(segments):
        try:
            segment.aborted()
        except StorageError:
            producers = load_producer_state(place, segments[:number], snapshots, segment.base_offset)
            aborted = [
                found
                for header, window in segment.batches()
                if header.producer_id >= 0
                and (found := producers.appended(header, window, header.position)) is not None
            ]
            segment.use_aborted(aborted)


def strays_among(offsets: Iterable[int], bases: Sequence[int], end_offset: int) -> list[int]:
    """The snapshots that nothing needs: those behind the end, and those at which no segment begins, but for
    the newest, if it lies behind the last segment's beginning: a clean stop has left it."""
    strays = sorted(set(offsets) - set(bases))
    kept = max((offset for offset in strays if bases[-1] < offset <= end_offset), default=None)
    return [offset for offset in strays if offset != kept]
