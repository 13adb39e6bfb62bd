"""Recovery of producer state and transaction indexes at startup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.log.producers.producer_state_manager import (
    ProducerStateManager,
    delete_snapshots,
    load_producer_state,
)
from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.model.errors import StorageError


def load_producer_state_before(
    context: SegmentContext, segments: list[LogSegment], first: int, snapshots: list[int]
) -> ProducerStateManager:
    """Return the producer state at the start of a scan, deleting later snapshots, which the scan replaces."""
    if not segments:
        return ProducerStateManager(0)
    base_offset = segments[first].base_offset
    producers = load_producer_state(context, segments[:first], snapshots, base_offset)
    delete_snapshots(context, [offset for offset in snapshots if offset > base_offset])
    return producers


def rebuild_transaction_indexes(
    context: SegmentContext, segments: list[LogSegment], snapshots: list[int]
) -> None:
    """Rebuild invalid transaction indexes."""
    for number, segment in enumerate(segments):
        try:
            segment.aborted()
        except StorageError:
            producers = load_producer_state(context, segments[:number], snapshots, segment.base_offset)
            aborted = [
                transaction
                for header, window in segment.batches()
                if header.producer_id >= 0
                and (transaction := producers.update(header, window, header.position)) is not None
            ]
            segment.replace_aborted(aborted)


def find_stale_snapshots(offsets: Iterable[int], bases: Sequence[int], end_offset: int) -> list[int]:
    """Return the snapshots to delete: those after the log end and those not at a segment's base offset.

    The newest one after the last base offset is kept: a clean shutdown wrote it.
    """
    stale = sorted(set(offsets) - set(bases))
    kept = max((offset for offset in stale if bases[-1] < offset <= end_offset), default=None)
    return [offset for offset in stale if offset != kept]
