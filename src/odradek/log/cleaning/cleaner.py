"""Cleaning of one log: build the offset map of the dirty section, then rewrite the segments.

Inputs are collected on the event loop at the start; the passes run on threads in steps; each new segment is
swapped in on the loop, and only if the log still contains its source segments. An aborted cleaning keeps the
segments it has replaced: they are equivalent to the old ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from odradek.log.cleaning.cleaned_transaction_metadata import CleanedTransactionMetadata
from odradek.log.cleaning.cleaner_passes import (
    FilterRules,
    OffsetMapBuilder,
    ProducerRetention,
    SegmentRewriter,
)
from odradek.log.cleaning.log_to_clean import (
    LogToClean,
    SegmentSizes,
    group_segments_by_size,
    offset_map_slots,
)
from odradek.log.cleaning.segment_replacement import replace_segments
from odradek.log.log import Log
from odradek.log.log_config import CleanerConfig
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.log.segments.cleaned_segment import CleanedSegment, remove_leftovers
from odradek.log.segments.log_segment import LogSegment
from odradek.log.segments.segment_format import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from odradek.log.segments.transaction_index import AbortedTransaction, decode_aborted
from odradek.ports.files import FileSystem
from odradek.records.codec import OffsetMap

STEP_BYTES: Final = 2 * 1024 * 1024
"""Bytes read and written per step, in a few milliseconds; an abort is noticed after a step."""

STEPS: Final = (
    "offset_map_built",
    "segments_filtered",
    "segment_synced",
    "segments_replaced",
    "checkpointed",
)
"""Steps reported to ``on_step``: the first and the last once per cleaning, the others per group."""


class LogCleaningAborted(Exception):
    """Raised when a cleaning must end: it was aborted, or the log has changed."""


class CleanerStats(NamedTuple):
    """Statistics of a cleaning."""

    end_offset: int
    """End of the cleaned section."""
    dirty_bytes: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    is_map_full: bool


class Cleaner:
    """Cleaning of one log.

    ``throttle`` is awaited with the bytes of each step; it may raise ``LogCleaningAborted``.
    """

    def __init__(
        self,
        log: Log,
        cleanable: LogToClean,
        config: CleanerConfig,
        seed: bytes,
        now_ms: int,
        throttle: Callable[[int], Awaitable[None]],
        on_step: Callable[[str], None],
    ) -> None:
        self._log = log
        self._cleanable = cleanable
        self._throttle = throttle
        self._on_step = on_step
        self._now_ms = now_ms
        self._truncation_count = log.truncation_count
        self._files: FileSystem = log.segments[0].context.files
        end_offset = cleanable.first_uncleanable_offset
        self._segments = [segment for segment in log.segments if segment.base_offset < end_offset]
        self._ends = [segment.base_offset for segment in self._segments[1:]] + [end_offset]
        self._aborted: list[AbortedTransaction] = []
        self._without_aborted: list[LogSegment] = []
        for segment in log.segments:
            if segment.aborted_loaded:
                self._aborted += segment.aborted()
            else:
                self._without_aborted.append(segment)
        self._producers = log.producers.entries()
        self._window_bytes = config.window_bytes
        memory_bytes = config.map_bytes
        dirty_offsets = cleanable.first_uncleanable_offset - cleanable.first_dirty_offset
        slots = offset_map_slots(dirty_offsets, memory_bytes, SLOT_BYTES, config.load_factor)
        self._offset_map = OffsetMap(slots, seed)
        self._entries_max = max(int(slots * config.load_factor), 1)
        self._records_before = self._records_after = self._bytes_before = self._bytes_after = 0

    async def run(self, monotonic_ms: Callable[[], int]) -> CleanerStats:
        """Clean the log. Raises ``LogCleaningAborted``, and the errors of disk reads and corrupt batches."""
        directory = self._log.directory
        await self._files.offload(lambda: remove_leftovers(self._files, directory))
        self._aborted += await self._files.offload(self._read_aborted)
        retention = await self._files.offload(lambda: producer_retention(self._producers))
        is_full = await self._build_offset_map()
        self._on_step("offset_map_built")
        end_offset = self._offset_map.latest_offset + 1
        sizes, modified_ms = await self._files.offload(lambda: self._read_segment_sizes(end_offset))
        horizon_ms = self._legacy_horizon_ms(modified_ms)
        rules = FilterRules(self._now_ms, self._log.config.delete_retention_ms, horizon_ms)
        transactions = CleanedTransactionMetadata(self._aborted, self._segments[0].base_offset)
        config = self._log.config
        for numbers in group_segments_by_size(sizes, config.segment_bytes, config.segment_index_bytes):
            old = [self._segments[number] for number in numbers]
            written = [modified_ms[number] for number in numbers]
            target = await self._files.offload(partial(CleanedSegment, old[0].context, old[0].base_offset))
            sources = list(zip(old, written, strict=True))
            rewriter = SegmentRewriter(
                sources, target, self._offset_map, retention, transactions, rules, self._window_bytes
            )
            await self._replace(old, rewriter, target, written[-1], monotonic_ms)
        return CleanerStats(
            end_offset,
            self._cleanable.cleanable_bytes,
            self._bytes_before,
            self._bytes_after,
            self._records_before,
            self._records_after,
            is_full,
        )

    def _read_aborted(self) -> list[AbortedTransaction]:
        """Read the other aborted transactions: markers may be after the cleanable section. Blocks."""
        aborted = []
        for segment in self._without_aborted:
            path = segment.path(TRANSACTION_INDEX)
            with suppress(FileNotFoundError):
                aborted += decode_aborted(self._files.read_whole(path), path)
        return aborted

    async def _build_offset_map(self) -> bool:
        """Build the offset map of the dirty section; return whether the map is full."""
        first_dirty = self._cleanable.first_dirty_offset
        segments = zip(self._segments, self._ends, strict=True)
        dirty = [(segment, end) for segment, end in segments if end > first_dirty]
        transactions = CleanedTransactionMetadata(self._aborted, first_dirty)
        builder = OffsetMapBuilder(
            dirty, self._offset_map, self._entries_max, first_dirty, transactions, self._window_bytes
        )
        while not builder.is_done:
            await self._throttle(await self._files.offload(lambda: builder.step(STEP_BYTES)))
        return builder.is_full

    def _read_segment_sizes(self, end_offset: int) -> tuple[list[SegmentSizes], list[int]]:
        """Return sizes and modification times of the segments to rewrite. Blocks."""
        files = self._files
        sizes, modified_ms = [], []
        for segment, end in zip(self._segments, self._ends, strict=True):
            if segment.base_offset < end_offset:
                offsets, times = (
                    files.size_of(segment.path(OFFSET_INDEX)),
                    files.size_of(segment.path(TIME_INDEX)),
                )
                sizes.append(SegmentSizes(segment.base_offset, end, segment.size, offsets, times))
                modified_ms.append(files.modified_ms(segment.path(LOG)))
        return sizes, modified_ms

    def _legacy_horizon_ms(self, modified_ms: Sequence[int]) -> int:
        """Return the delete horizon for old formats, which cannot store it, from the last clean segment."""
        first_dirty = self._cleanable.first_dirty_offset
        segments = zip(self._segments, modified_ms, strict=False)
        clean = [modified for segment, modified in segments if segment.base_offset < first_dirty]
        return clean[-1] - self._log.config.delete_retention_ms if clean else 0

    async def _replace(
        self,
        old: Sequence[LogSegment],
        rewriter: SegmentRewriter,
        target: CleanedSegment,
        modified_ms: int,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """Rewrite a group of segments and replace them."""
        is_done = False
        try:
            while not rewriter.is_done:
                await self._throttle(await self._files.offload(lambda: rewriter.step(STEP_BYTES)))
            self._on_step("segments_filtered")
            await self._files.offload(lambda: target.finish(rewriter.take_aborted(), modified_ms))
            await self._throttle(0)
            self._on_step("segment_synced")
            is_done = await replace_segments(self._log, old, target, self._truncation_count, monotonic_ms())
        finally:
            if not is_done and self._log.failure is None:
                await self._files.offload(target.discard)
        if not is_done:
            raise LogCleaningAborted("the log has changed")
        self._on_step("segments_replaced")
        self._bytes_before += sum(segment.size for segment in old)
        self._bytes_after += target.size
        self._records_before += rewriter.records_read
        self._records_after += rewriter.records_kept


SLOT_BYTES: Final = 24
"""Size of a key hash and an offset."""


def producer_retention(producers: Iterable[ProducerStateEntry]) -> ProducerRetention:
    """Return the batches that carry the last sequence or epoch of each producer."""
    last_offsets, marker_epochs = set(), {}
    for producer in producers:
        if producer.batches:
            last_offsets.add(producer.batches[-1].last_offset)
        else:
            marker_epochs[producer.producer_id] = producer.producer_epoch
    return ProducerRetention(array("q", sorted(last_offsets)), marker_epochs)
