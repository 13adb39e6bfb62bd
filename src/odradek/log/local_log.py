"""Segment management of a log: roll, truncation, flush, close.

Also holds the offsets, leader epochs and producer state that change with the segments.

Invariants: ``log_start_offset <= recovery_point``-or-end, ``high_watermark <= log_end_offset``; everything
below ``recovery_point`` is synced, file names included; only the last segment changes. There is one caller;
methods that wait for the disk are ``async`` and run on the file port's threads, on inputs collected before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from odradek.log.disk_health import DISK_FULL_ERRORS, DiskHealth
from odradek.log.log_config import LogConfig
from odradek.log.log_flusher import LogFlusher, TransientWriteError
from odradek.log.log_state import LogState
from odradek.log.partition_metadata_file import PartitionMetadataFile
from odradek.log.producers.producer_state_manager import (
    ProducerStateManager,
    delete_snapshots,
    list_snapshot_offsets,
)
from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.cleaned_segment import CleanedSegment
from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.log.segments.log_segments import LogSegments, PendingSegmentDeletes
from odradek.log.segments.segment_format import DirectoryKind, directory_name
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy


class LocalLog:
    """Log as a list of segments.

    ``on_roll`` is called when a sealed segment needs a flush, ``on_truncate`` after each truncation,
    ``on_failure`` when a disk fails.
    """

    __slots__ = (
        "_active",
        "_config",
        "_context",
        "_entropy",
        "_flusher",
        "_on_roll",
        "_on_truncate",
        "_partition_metadata",
        "_producers",
        "_rules",
        "_segments",
        "_stale_recovery_point",
        "disk_health",
        "epochs",
        "flushed_ms",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "pending_deletes",
        "recovery_point",
        "swap",
        "topic_partition",
        "truncation_count",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        context: SegmentContext,
        config: LogConfig,
        state: LogState,
        *,
        entropy: Entropy,
        is_new: bool = False,
        on_roll: Callable[[Self], None] = lambda _: None,
        on_truncate: Callable[[Self], None] = lambda _: None,
        on_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self.topic_partition = topic_partition
        self.epochs = state.epochs
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.recovery_point = state.recovery_point
        self.high_watermark = state.log_start_offset
        self.flushed_ms: int | None = None
        """Time of the last scheduled flush (``flush.ms``); maintained by the caller."""
        self._context = context
        self.disk_health = DiskHealth(context, on_failure)
        self._flusher = LogFlusher(context, state.checkpointed_epochs, is_new=is_new)
        self.pending_deletes = PendingSegmentDeletes(context.files)
        self._segments = LogSegments(state.segments)
        last = state.segments[-1]
        self._active = last if isinstance(last, ActiveSegment) else None
        self._producers = state.producers
        self._partition_metadata = PartitionMetadataFile(topic_partition, context, self.disk_health)
        self._entropy = entropy
        self.truncation_count = 0
        """Number of truncations. Results computed before a truncation may not hold after it."""
        self._stale_recovery_point = 0
        """Largest recovery point before a truncation; the directory's checkpoint may still contain it."""
        self.swap: CleanedSegment | None = None
        """Cleaned segment that is being renamed on a thread."""
        self._on_roll = on_roll
        self._on_truncate = on_truncate
        self.configure(config)

    # Properties.

    @property
    def directory(self) -> str:
        return self._context.directory

    @property
    def config(self) -> LogConfig:
        return self._config

    def configure(self, config: LogConfig) -> None:
        """Apply changed settings; index settings apply from the next segment on."""
        self._config = config
        self._rules = config.append_rules()
        self._context.index_interval_bytes = config.index_interval_bytes
        self._context.index_bytes_max = config.segment_index_bytes
        if self._active is not None:
            self._active.update_limits(config.segment_bytes, self._roll_ms())

    @property
    def failure(self) -> StorageError | None:
        """The disk error that made this log unusable."""
        return self.disk_health.failure

    @property
    def last_stable_offset(self) -> int:
        """Last stable offset: the first unstable offset, at most the high watermark."""
        high_watermark, transactions = self.high_watermark, self._producers.states.transactions
        if transactions.first_unstable_offset >= high_watermark:
            return high_watermark
        return transactions.last_stable_offset(high_watermark, self.log_start_offset)

    @property
    def segments(self) -> LogSegments:
        return self._segments

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def is_flush_due(self) -> bool:
        """True if ``flush.messages`` requires a flush now."""
        return self.log_end_offset - self.recovery_point >= self._config.flush_messages

    @property
    def topic_id(self) -> TopicId | None:
        """Topic id from ``partition.metadata``, if there is one."""
        return self._partition_metadata.topic_id

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Write the topic id; raises INCONSISTENT_TOPIC_ID if the log has another one. Blocks."""
        self._partition_metadata.assign_topic_id(topic_id)

    # Segments.

    def _activate(self, now_ms: int) -> ActiveSegment:
        """Open the last segment for appends."""
        try:
            active = ActiveSegment.activate(self._segments[-1], self.log_end_offset)
        except OSError as error:
            raise self.disk_health.error_for(error, "open") from error
        self._segments.replace_last(active)
        self._set_active(active, now_ms)
        return active

    def _set_active(self, active: ActiveSegment, now_ms: int) -> None:
        active.set_limits(self._config.segment_bytes, self._roll_ms(), now_ms)
        self._active = active

    def _roll_ms(self) -> int:
        """Return the maximum segment age, with jitter so that logs do not all roll at once."""
        jitter_max = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return self._config.segment_ms - (self._entropy.below(jitter_max) if jitter_max > 0 else 0)

    def roll(
        self: Self, now_ms: int, first_offset: int | None = None, *, needs_room: bool = True
    ) -> ActiveSegment:
        """Seal the active segment and create the next, at the end of its batches or at ``first_offset``.

        The end of the batches is below the log end offset after a truncation inside a batch, and below the
        first offset of the next batch if the leader has compacted. Recovery takes a gap between segments for
        lost batches, so there must be none.

        With ``needs_room=False`` the indexes of the sealed segment may stay in memory, as it is deleted next.
        """
        old = self._active or self._activate(now_ms)
        try:
            base_offset = old.next_offset() if first_offset is None else first_offset
            if base_offset == old.base_offset:
                return old
            sealed = old.seal() if needs_room else _seal_even_if_full(old)
            if base_offset < max(self._stale_recovery_point, self.recovery_point):
                # Recovery may start at the new segment.
                sealed.sync()
            new = ActiveSegment.create(self._context, base_offset)
        except OSError as error:
            raise self.disk_health.error_for(error, "create a segment in") from error
        self._segments.replace_last(sealed)
        self._segments.add(new)
        self._flusher.names_changed = True
        self._producers.take_snapshot(base_offset)
        self._set_active(new, now_ms)
        self._on_roll(self)
        return new

    # Truncation.

    def truncate_to(self: Self, offset: int, now_ms: int) -> bool:
        """Remove the batch that contains ``offset`` and all after it; ``offset`` becomes the log end offset.

        Durable when this returns, before any append: first the batches, then the leader epochs. The other way
        round, a power loss could bring back removed batches under the epochs of those that replaced them.
        Recovery tolerates an old recovery point above ``offset``. Blocks.
        """
        self.disk_health.check()
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self._write_epochs()
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        try:
            self._cancel_swap()
            self._truncate_segments(offset, now_ms)
            self._producers.truncate(self._context, list(self._segments), offset)
        except OSError as error:
            # Segments may be deleted already: the files no longer match the offsets.
            raise self.disk_health.fail(error, "truncate") from error
        self.epochs.truncate_from_end(offset)
        self._set_end(offset)
        self._write_epochs()
        self._on_truncate(self)
        return True

    def _cancel_swap(self) -> None:
        """Keep recovery from swapping in a cleaned segment with batches that are about to be removed."""
        if self.swap is not None:
            self.swap.cancel_swap()
            self._context.files.sync_dir(self._context.directory)

    def _write_epochs(self) -> None:
        try:
            self._flusher.write_epochs(self.epochs.entries)
        except OSError as error:
            raise self.disk_health.fail(error, "truncate") from error

    def _truncate_segments(self, offset: int, now_ms: int) -> None:
        dropped = self._segments.drop_after(offset)
        if dropped:
            self._active = None
            self._flusher.names_changed = True
            for segment in reversed(dropped):
                segment.remove()
            # If they reappeared after a crash, they would follow the records appended from now on.
            self._context.files.sync_dir(self._context.directory)
        active = self._active or self._activate(now_ms)
        active.truncate(offset)
        # If the truncation were lost after the next roll, two segments would contain the same offsets.
        active.sync_log()

    def _set_end(self, offset: int) -> None:
        self.truncation_count += 1
        self._stale_recovery_point = max(self._stale_recovery_point, self.recovery_point)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def truncate_fully_and_start_at(self: Self, offset: int, now_ms: int) -> None:
        """Remove all records; the empty log starts and ends at ``offset``. Durable, and blocks."""
        self.disk_health.check()
        first, *others = self._segments
        try:
            self._cancel_swap()
            for segment in reversed(others):
                segment.remove()
            names = self._context.files.list_names(self._context.directory)
            delete_snapshots(self._context, list_snapshot_offsets(names))
            # A log found without segments would restart at offset 0.
            new = ActiveSegment.create(self._context, offset)
            if first.base_offset != offset:
                first.remove()
            self._context.files.sync_dir(self._context.directory)
        except OSError as error:
            raise self.disk_health.fail(error, "truncate") from error
        self._segments.reset(new)
        self._producers = ProducerStateManager(offset)
        self._flusher.names_changed = True
        self._set_active(new, now_ms)
        self.epochs.clear()
        self._set_end(offset)
        self.log_start_offset = self.high_watermark = self.recovery_point = offset
        self._write_epochs()
        self._on_truncate(self)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Advance the log start offset. Durable once the directory checkpoints log start offsets."""
        if offset > self.high_watermark:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"log start offset must be <= high watermark {self.high_watermark}, got {offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True

    # Maintenance: see ``old_segments`` and ``cleaning``.

    async def sync_names(self) -> None:
        """Sync created, renamed and deleted file names."""
        try:
            await self._flusher.sync_directory()
        except OSError as error:
            self._flusher.names_changed = True
            raise self.disk_health.sync_error_for(error, "sync") from error

    # Durability.

    def maintenance_lock(self) -> asyncio.Lock:
        """Return the lock for syncs and renames of the log's files."""
        return self._flusher.lock()

    async def flush(self) -> None:
        """Sync everything appended so far and advance ``recovery_point``."""
        async with self._flusher.lock():
            self.disk_health.check()
            if not self._is_dirty:
                return
            end_offset, truncation_count = self.log_end_offset, self.truncation_count
            snapshots, offsets = self._producers.plan_snapshots(self._context)
            try:
                await self._context.files.offload(self._plan_flush(snapshots))
            except asyncio.CancelledError:
                # The work may never run: whoever closes the log must not take it for done.
                self._flusher.undo_plan()
                raise
            except TransientWriteError as error:
                self._flusher.undo_plan()
                raise StorageError(f"cannot flush {self._context.directory} yet: {error}") from error
            except OSError as error:
                self._flusher.undo_plan()
                refusal = self.disk_health.sync_error_for(error, "sync")
                raise refusal if self.failure else StorageError(str(refusal)) from error
            if truncation_count == self.truncation_count:
                self._producers.mark_written(offsets)
                self.recovery_point = max(self.recovery_point, end_offset)
            else:
                await self._replace_stale_files(self._producers.stale_snapshots(offsets))

    async def _replace_stale_files(self, snapshot_offsets: list[int]) -> None:
        """Replace what a flush wrote during a truncation: it describes removed batches."""
        try:
            await self._context.files.offload(lambda: delete_snapshots(self._context, snapshot_offsets))
            self._flusher.names_changed = True
            await self._flusher.replace_stale_epochs(self.epochs.entries)
        except OSError as error:
            raise self.disk_health.fail(error, "truncate") from error

    @property
    def _is_dirty(self) -> bool:
        return (
            self.log_end_offset != self.recovery_point
            or self._producers.has_pending_snapshots
            or self._flusher.has_changes(self.epochs.entries)
        )

    def _plan_flush(self, snapshots: Callable[[], None] | None) -> Callable[[], None]:
        # A segment that ends at the recovery point has synced batches, but perhaps not synced indexes.
        unflushed = self._segments.segments_from(self.recovery_point - 1)
        return self._flusher.plan(unflushed, self._active, self.epochs.entries, snapshots)

    async def close(self) -> None:
        """Flush everything, indexes included, and close. The log must not be used afterwards."""
        plan = self.plan_close()
        if plan is not None:
            try:
                await self._context.files.offload(plan)
            except OSError as error:
                raise self.disk_health.fail(error, "close") from error
        self.finish_close()

    def plan_close(self) -> Callable[[], None] | None:
        """Return the blocking part of ``close``, to be run on a thread; ``None`` if it is empty."""
        self.disk_health.check()
        self._producers.take_snapshot(self.log_end_offset)
        snapshots, _ = self._producers.plan_snapshots(self._context)
        if self._active is None:
            return self._plan_flush(snapshots) if self._is_dirty else None
        try:
            sealed = self._active.seal()
        except OSError as error:
            raise self.disk_health.fail(error, "close") from error
        flush = self._plan_flush(snapshots)

        def work() -> None:
            sealed.sync()
            flush()

        return work

    def finish_close(self) -> None:
        """Finish ``close`` after the plan has run."""
        self.recovery_point = self.log_end_offset
        for segment in self._segments:
            segment.close()

    def rename_directory(self, kind: DirectoryKind) -> str:
        """Rename the log's directory to another kind and return its path. The log stays in use.

        The caller holds ``maintenance_lock`` and syncs the parent directory.
        """
        parent = self._context.directory.rpartition("/")[0]
        unique = "" if kind is DirectoryKind.CURRENT else self._entropy.uuid().hex()
        path = f"{parent}/{directory_name(self.topic_partition, kind, unique)}"
        try:
            self._context.files.rename(self._context.directory, path)
        except OSError as error:
            raise self.disk_health.error_for(error, "rename") from error
        self._context.directory = path
        return path

    def rename_for_deletion(self) -> str:
        """Rename the directory for deletion and return its path. The log must not be used afterwards.

        Reads in progress can finish: open files are not affected by the rename.
        """
        path = self.rename_directory(DirectoryKind.DELETE)
        for segment in self._segments:
            self._context.opened.forget(segment)
            segment.release()
        return path


def _seal_even_if_full(active: ActiveSegment) -> LogSegment:
    """Seal a segment even if the disk is full."""
    try:
        return active.seal()
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        return active.seal_in_memory()
