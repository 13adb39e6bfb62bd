"""One round of compaction over one log: learn the newest offset of each key, then write the segments anew.

What it needs of the log is gathered on the loop when it begins; the passes run on threads, a step at a time;
each new segment is put in its place on the loop, and only if the log still holds those it was made from. A
round that is given up leaves the segments it has replaced, and nothing else: they are as good as the old.
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
from odradek.log.cleaning.log_to_clean import LogToClean, SegmentSizes, group, slots_for
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
"""Read and written in a step, within a few milliseconds: so soon does a round notice that it is to end."""

STEPS: Final = ("learned", "sifted", "finished", "swapped", "checkpointed")
"""What a round tells of, in this order: keys are known; a group is written; its files are on the disk; they
are in their place; and, once for all groups, how far the log is compacted was written down."""


class LogCleaningAborted(Exception):
    """The round is not to go on: somebody asked for that, or the log has changed."""


class CleanerStats(NamedTuple):
    """What a round did."""

    end_offset: int
    """Compacted up to here."""
    dirty_bytes: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    is_map_full: bool


class Cleaner:
    """``between`` is awaited after each step with the bytes that it moved; it raises
    ``LogCleaningAborted``.
    """

    def __init__(
        self,
        log: Log,
        cleanable: LogToClean,
        config: CleanerConfig,
        seed: bytes,
        now_ms: int,
        between: Callable[[int], Awaitable[None]],
        on_step: Callable[[str], None],
    ) -> None:
        self._log = log
        self._cleanable = cleanable
        self._between = between
        self._on_step = on_step
        self._now_ms = now_ms
        self._cuts = log.cuts
        self._files: FileSystem = log.segments[0].context.files
        self._segments = [one for one in log.segments if one.base_offset < cleanable.first_uncleanable_offset]
        self._ends = [one.base_offset for one in self._segments[1:]] + [cleanable.first_uncleanable_offset]
        known = [one for one in log.segments if one.knows_aborted]
        self._on_file = [one for one in log.segments if not one.knows_aborted]
        self._aborted: list[AbortedTransaction] = [aborted for one in known for aborted in one.aborted()]
        self._producers = log.producers.entries()
        self._window_bytes = config.window_bytes
        memory_bytes = config.map_bytes
        dirty_offsets = cleanable.first_uncleanable_offset - cleanable.first_dirty_offset
        slots = slots_for(dirty_offsets, memory_bytes, SLOT_BYTES, config.load_factor)
        self._keys = OffsetMap(slots, seed)
        self._count_max = max(int(slots * config.load_factor), 1)
        self._records_before = self._records_after = self._bytes_before = self._bytes_after = 0

    async def run(self, monotonic_ms: Callable[[], int]) -> CleanerStats:
        """Compact the log. Raises what the disk or a damaged batch raises, and ``LogCleaningAborted``."""
        directory = self._log.directory
        await self._files.offload(lambda: remove_leftovers(self._files, directory))
        self._aborted += await self._files.offload(self._read_aborted)
        kept = await self._files.offload(lambda: kept_for(self._producers))
        is_full = await self._learn()
        self._on_step("learned")
        end_offset = self._keys.latest_offset + 1
        sizes, modified_ms = await self._files.offload(lambda: self._look(end_offset))
        horizon_ms = self._legacy_horizon_ms(modified_ms)
        rules = FilterRules(self._now_ms, self._log.config.delete_retention_ms, horizon_ms)
        walk = CleanedTransactionMetadata(self._aborted, self._segments[0].base_offset)
        config = self._log.config
        for numbers in group(sizes, config.segment_bytes, config.segment_index_bytes):
            old = [self._segments[number] for number in numbers]
            written = [modified_ms[number] for number in numbers]
            target = await self._files.offload(partial(CleanedSegment, old[0].context, old[0].base_offset))
            sources = list(zip(old, written, strict=True))
            sifting = SegmentRewriter(sources, target, self._keys, kept, walk, rules, self._window_bytes)
            await self._replace(old, sifting, target, written[-1], monotonic_ms)
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
        """The aborted transactions of all segments that change no more: markers may lie behind the round's
        end. Waits."""
        aborted = []
        for segment in self._on_file:
            path = segment.path(TRANSACTION_INDEX)
            with suppress(FileNotFoundError):
                aborted += decode_aborted(self._files.read_whole(path), path)
        return aborted

    async def _learn(self) -> bool:
        """Note the newest offset of each key of the dirty part; give whether the map has no room for all."""
        first_dirty = self._cleanable.first_dirty_offset
        dirty = [(one, end) for one, end in zip(self._segments, self._ends, strict=True) if end > first_dirty]
        walk = CleanedTransactionMetadata(self._aborted, first_dirty)
        learning = OffsetMapBuilder(dirty, self._keys, self._count_max, first_dirty, walk, self._window_bytes)
        while not learning.is_done:
            await self._between(await self._files.offload(lambda: learning.step(STEP_BYTES)))
        return learning.is_full

    def _look(self, end_offset: int) -> tuple[list[SegmentSizes], list[int]]:
        """Sizes of the segments that are written anew, and when each was last written. Waits."""
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
        """Old formats have no place for a delete horizon: there the age of the last clean file counts."""
        first_dirty = self._cleanable.first_dirty_offset
        clean = [
            at for one, at in zip(self._segments, modified_ms, strict=False) if one.base_offset < first_dirty
        ]
        return clean[-1] - self._log.config.delete_retention_ms if clean else 0

    async def _replace(
        self,
        old: Sequence[LogSegment],
        sifting: SegmentRewriter,
        target: CleanedSegment,
        modified_ms: int,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """Write a group of segments anew and put the new one in their place."""
        is_done = False
        try:
            while not sifting.is_done:
                await self._between(await self._files.offload(lambda: sifting.step(STEP_BYTES)))
            self._on_step("sifted")
            await self._files.offload(lambda: target.finish(sifting.take_aborted(), modified_ms))
            await self._between(0)
            self._on_step("finished")
            is_done = await self._log.replace(old, target, self._cuts, monotonic_ms())
        finally:
            if not is_done and self._log.failure is None:
                await self._files.offload(target.discard)
        if not is_done:
            raise LogCleaningAborted("the log has changed")
        self._on_step("swapped")
        self._bytes_before += sum(one.size for one in old)
        self._bytes_after += target.size
        self._records_before += sifting.records_read
        self._records_after += sifting.records_kept


SLOT_BYTES: Final = 24
"""Of a key's hash and its offset."""


def kept_for(producers: Iterable[ProducerStateEntry]) -> ProducerRetention:
    """What tells of a producer's last sequence and epoch, though no record of it may be left."""
    last_offsets, marker_epochs = set(), {}
    for producer in producers:
        if producer.batches:
            last_offsets.add(producer.batches[-1].last_offset)
        else:
            marker_epochs[producer.producer_id] = producer.producer_epoch
    return ProducerRetention(array("q", sorted(last_offsets)), marker_epochs)
