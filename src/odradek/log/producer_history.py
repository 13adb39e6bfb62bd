"""The producers of a log, as its batches tell of them.

Nothing is read until somebody asks: until then, what is appended needs no remembering, because it will be in
the log. From then on every append is told of.
"""

from __future__ import annotations

from typing import Final

from odradek.log.producers import KeptBatch, ProducerStates
from odradek.log.segment import Segment
from odradek.log.segments import SegmentList
from odradek.records.layout import BatchHeader
from odradek.records.validation import Origin

PRODUCER_TAIL_BYTES: Final = 8 * 1024 * 1024
"""How much of a log's end is read for its producers. A producer has at most five batches under way: what it
may still repeat lies here; reading all would stall the first idempotent append to a large log."""


class ProducerHistory:
    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: ProducerStates | None = None

    def producers(self, segments: SegmentList, log_start_offset: int) -> ProducerStates:
        """All that are known; read from the headers of the newest batches when first asked for."""
        if self._producers is None:
            self._producers = _learn(segments, log_start_offset)
        return self._producers

    def check(
        self, header: BatchHeader, origin: Origin, segments: SegmentList, log_start_offset: int
    ) -> KeptBatch | None:
        """Judge a batch that is to be appended; give the earlier append that it repeats, if it does."""
        producers = self.producers(segments, log_start_offset)
        if origin is Origin.CLIENT:
            return producers.check(header)
        producers.check_epoch(header)
        return None

    def appended(self, header: BatchHeader) -> None:
        """A batch is in the log."""
        if self._producers is not None and header.producer_id >= 0 and not header.is_control:
            self._producers.appended(header)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for so long; give how many."""
        return 0 if self._producers is None else self._producers.expire(now_ms, expiration_ms)

    def forget(self) -> None:
        """The log was cut: it has to be read again."""
        self._producers = None


def _learn(segments: SegmentList, log_start_offset: int) -> ProducerStates:
    """Learn producers from the newest batches: those that a retry may still repeat."""
    producers = ProducerStates()
    newest: list[tuple[Segment, int]] = []
    wanted = PRODUCER_TAIL_BYTES
    for segment in reversed(list(segments)):
        if wanted <= 0:
            break
        newest.append((segment, wanted))
        wanted -= segment.size
    for segment, tail_bytes in reversed(newest):
        for header in segment.headers(tail_bytes):
            is_there = header.last_offset >= log_start_offset
            if is_there and header.producer_id >= 0 and not header.is_control:
                producers.appended(header)
    return producers
