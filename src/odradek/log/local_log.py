"""A log as files: segments in order, the last of which grows, and what becomes of them.

Segments are begun, cut off at the end, dropped at the start, replaced by compacted ones and brought to the
disk. Offsets, leader epochs and producers are kept here as far as they have to follow.

Invariants: ``log_start_offset <= recovery_point``-or-end, ``high_watermark <= log_end_offset``; what lies
below ``recovery_point`` is on the disk, names included; the last segment is the only one that changes. One
owner calls this; what may wait for a disk is ``async`` and runs on the file port's threads, with all that it
needs gathered before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from odradek.log.checkpoints import PARTITION_METADATA, encode_partition_metadata, read_partition_metadata
from odradek.log.disk_health import DISK_FULL_ERRORS, DiskHealth
from odradek.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from odradek.log.log_config import LogConfig
from odradek.log.log_flusher import DiskFull, LogFlusher
from odradek.log.producers.producer_state_manager import (
    ProducerStateManager,
    remove_snapshots,
    snapshot_offsets_in,
)
from odradek.log.retention import DeletableSegment, LogStats, find_deletable_segments
from odradek.log.segments import page_in
from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.cleaned_segment import CleanedSegment
from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.log.segments.log_segments import LogSegments, TimestampsNotLoaded
from odradek.log.segments.pending_deletes import PendingSegmentDeletes
from odradek.log.segments.segment_format import DirectoryKind, directory_name
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy


class LogState:
    """What is known of a log when it is opened."""

    __slots__ = (
        "epochs",
        "epochs_written",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        segments: list[LogSegment],
        epochs: LeaderEpochCache,
        epochs_written: tuple[EpochEntry, ...],
        producers: ProducerStateManager,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.segments = segments
        self.epochs = epochs
        self.epochs_written = epochs_written
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point


class LocalLog:
    """``on_roll`` is told when a segment was sealed and wants flushing, ``on_failure`` when a disk failed."""

    __slots__ = (
        "_active",
        "_config",
        "_cuts",
        "_entropy",
        "_flushing",
        "_leaving",
        "_on_roll",
        "_place",
        "_producers",
        "_rules",
        "_segments",
        "_topic_id",
        "_trust",
        "epochs",
        "flushed_ms",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        place: SegmentContext,
        config: LogConfig,
        state: LogState,
        *,
        entropy: Entropy,
        is_new: bool = False,
        on_roll: Callable[[Self], None] = lambda _: None,
        on_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self.topic_partition = topic_partition
        self.epochs = state.epochs
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.recovery_point = state.recovery_point
        self.high_watermark = state.log_start_offset
        self.flushed_ms: int | None = None
        """When ``flush.ms`` was last seen to; kept by whoever flushes on a schedule."""
        self._place = place
        self._trust = DiskHealth(place, on_failure)
        self._flushing = LogFlusher(place, state.epochs_written, is_new=is_new)
        self._leaving = PendingSegmentDeletes(place.files)
        self._segments = LogSegments(state.segments)
        last = state.segments[-1]
        self._active = last if isinstance(last, ActiveSegment) else None
        self._producers = state.producers
        self._topic_id: TopicId | None = None
        self._entropy = entropy
        self._cuts = 0
        self._on_roll = on_roll
        self.configure(config)

    # What it is.

    @property
    def directory(self) -> str:
        return self._place.directory

    @property
    def config(self) -> LogConfig:
        return self._config

    def configure(self, config: LogConfig) -> None:
        """Go by other settings from now on; index settings hold from the next segment on."""
        self._config = config
        self._rules = config.append_rules()
        self._place.index_interval_bytes = config.index_interval_bytes
        self._place.index_bytes_max = config.segment_index_bytes
        if self._active is not None:
            self._active.change_bounds(config.segment_bytes, self._roll_ms())

    @property
    def failure(self) -> StorageError | None:
        """What ended the trust in this log's files."""
        return self._trust.failure

    @property
    def last_stable_offset(self) -> int:
        """Up to here nothing is of an open transaction. Without transactions that is the high watermark."""
        high_watermark, transactions = self.high_watermark, self._producers.states.transactions
        if transactions.first_offset >= high_watermark:
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
        """Whether ``flush.messages`` asks for a flush now."""
        return self.log_end_offset - self.recovery_point >= self._config.flush_messages

    @property
    def topic_id(self) -> TopicId | None:
        """Id of the topic whose log this is, as far as it is known."""
        if self._topic_id is None:
            path = f"{self._place.directory}/{PARTITION_METADATA}"
            try:
                self._topic_id = read_partition_metadata(self._place.files, path)
            except OSError as error:
                raise self._trust.refusal(error, "read") from error
        return self._topic_id

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Keep the topic's id with the log; a log of another topic of the same name is refused. Waits."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {self.topic_partition} is that of another topic"
            )
        path = f"{self._place.directory}/{PARTITION_METADATA}"
        try:
            self._place.files.write_whole(path, encode_partition_metadata(topic_id))
        except OSError as error:
            raise self._trust.refusal(error, "write") from error
        self._topic_id = topic_id

    # Segments.

    def _activate(self, now_ms: int) -> ActiveSegment:
        """Make the last segment ready for appends."""
        try:
            active = ActiveSegment.activate(self._segments[-1], self.log_end_offset)
        except OSError as error:
            raise self._trust.refusal(error, "open") from error
        self._segments.replace_last(active)
        self._begin(active, now_ms)
        return active

    def _begin(self, active: ActiveSegment, now_ms: int) -> None:
        active.set_bounds(self._config.segment_bytes, self._roll_ms(), now_ms)
        self._active = active

    def _roll_ms(self) -> int:
        """How old a segment may grow: not all logs roll at the same moment."""
        jitter_max = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return self._config.segment_ms - (self._entropy.below(jitter_max) if jitter_max > 0 else 0)

    def roll(
        self: Self, now_ms: int, first_offset: int | None = None, *, needs_room: bool = True
    ) -> ActiveSegment:
        """Seal the last segment and begin the next. One that is about to go needs no room for its indexes."""
        old = self._active or self._activate(now_ms)
        base_offset = max(self.log_end_offset, first_offset or 0)
        if base_offset == old.base_offset:
            return old
        try:
            sealed = old.seal() if needs_room else _seal_anyway(old)
            new = ActiveSegment.create(self._place, base_offset)
        except OSError as error:
            raise self._trust.refusal(error, "begin a segment in") from error
        self._segments.replace_last(sealed)
        self._segments.add(new)
        self._flushing.names_changed = True
        self._producers.take_snapshot(base_offset)
        self._begin(new, now_ms)
        self._on_roll(self)
        return new

    # Cuts.

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop the batch that holds ``offset`` and all after it; the log ends at ``offset`` then.

        Waits for the disk if whole segments go. Whoever calls this checkpoints recovery points soon after: an
        old one above the cut must not survive.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        try:
            self._cut_segments(offset, now_ms)
            self._producers.cut(self._place, list(self._segments), offset)
        except OSError as error:
            # Segments may be gone already: what is left is not what the numbers say.
            raise self._trust.lose(error, "truncate") from error
        self.epochs.truncate_from_end(offset)
        self._end_at(offset)
        return True

    def _cut_segments(self, offset: int, now_ms: int) -> None:
        dropped = self._segments.drop_after(offset)
        if dropped:
            self._active = None
            self._flushing.names_changed = True
            for segment in reversed(dropped):
                segment.remove()
            # Were they to come back after a crash, they would stand behind what is written from here on.
            self._place.files.sync_dir(self._place.directory)
        active = self._active or self._activate(now_ms)
        active.truncate(offset)
        # Were the cut to come undone once the next segment is begun, two would hold the same offsets.
        active.sync_log()

    def _end_at(self, offset: int) -> None:
        self._cuts += 1
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything; the log is empty and starts and ends at ``offset`` then. Waits."""
        first, *others = self._segments
        try:
            for segment in reversed(others):
                segment.remove()
            names = self._place.files.list_names(self._place.directory)
            remove_snapshots(self._place, snapshot_offsets_in(names))
            # The log must not be found without segments: it would begin at offset 0 again.
            new = ActiveSegment.create(self._place, offset)
            if first.base_offset != offset:
                first.remove()
            self._place.files.sync_dir(self._place.directory)
        except OSError as error:
            raise self._trust.lose(error, "truncate") from error
        self._segments.start_with(new)
        self._producers = ProducerStateManager(offset)
        self._flushing.names_changed = True
        self._begin(new, now_ms)
        self.epochs.clear()
        self._end_at(offset)
        self.log_start_offset = self.high_watermark = self.recovery_point = offset

    def advance_log_start_offset(self, offset: int) -> bool:
        """Let the log start later. Survives once its directory has checkpointed log starts."""
        if offset > self.high_watermark:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is above the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True

    # Retention.

    async def delete_old_segments(self, now_ms: int, monotonic_ms: int) -> list[DeletableSegment]:
        """Let go of the segments that are due, and give them.

        Their files are renamed now and removed by ``delete_pending_segments`` after
        ``file.delete.delay.ms``. Whoever reads from them goes on. ``now_ms`` is the wall clock's.
        """
        if not await self._find_due(now_ms):
            return []
        async with self._flushing.one_at_a_time():
            due = await self._find_due(now_ms)
            if len(due) == len(self._segments):
                self.roll(now_ms, needs_room=False)
                # The log must not be found without segments: it would begin at offset 0 again.
                await self._sync_names()
                due = (await self._find_due(now_ms))[: len(self._segments) - 1]
            if due:
                self._let_go_of(self._segments.drop_first(len(due)), monotonic_ms)
                start, cuts = self._segments[0].base_offset, self._cuts
                await self._sync_names()
                # Not before: should they come back after a crash, they must be scanned.
                if cuts == self._cuts:
                    self.recovery_point = max(self.recovery_point, start)
            return due

    async def _sync_names(self) -> None:
        try:
            await self._flushing.sync_directory()
        except OSError as error:
            self._flushing.names_changed = True
            raise self._trust.sync_refusal(error, "sync") from error

    async def _find_due(self, now_ms: int) -> list[DeletableSegment]:
        """The segments that go now, without a wait after that; their times are read on a thread."""
        count = 1
        while True:
            self._trust.require()
            of = LogStats(self.log_start_offset, self.high_watermark, self.size_bytes)
            facts = self._segments.facts(self.log_end_offset, with_times=self._config.deletes_by_time)
            try:
                return find_deletable_segments(facts, of, self._config, now_ms)
            except TimestampsNotLoaded as untimed:
                await self._read_times(untimed.segment, count)
                count = page_in.SEGMENTS_AT_ONCE  # the first one is often the only one asked about

    async def _read_times(self, first: LogSegment, count: int) -> None:
        """Know how new a segment is, and some of those after it."""
        try:
            await page_in.read_times(self._segments, self._segments.since(first.base_offset)[:count])
        except OSError as error:
            if first in self._segments:  # else it has left the log meanwhile
                raise self._trust.refusal(error, "search") from error

    def _let_go_of(self, segments: Sequence[LogSegment], monotonic_ms: int) -> None:
        """Mark segments that are no longer part of the log. They stand before all that is."""
        start = self._segments[0].base_offset
        if start > self.log_start_offset:
            self.advance_log_start_offset(start)
        try:
            self._leaving.add(segments, monotonic_ms + self._config.file_delete_delay_ms)
        except OSError as error:
            raise self._trust.refusal(error, "rename segments of") from error

    async def delete_pending_segments(self, monotonic_ms: int) -> int:
        """Remove the files of segments whose time has come; give the number of segments."""
        try:
            return await self._leaving.remove_due(monotonic_ms)
        except OSError as error:
            raise self._trust.refusal(error, "remove segments of") from error

    # Compaction.

    @property
    def cuts(self) -> int:
        """How often the end was cut off. What was found out before a cut may not be true after it."""
        return self._cuts

    async def replace(
        self, old: Sequence[LogSegment], cleaned: CleanedSegment, cuts: int, monotonic_ms: int
    ) -> bool:
        """Put a compacted segment, which is whole and on the disk, in the place of those it was made from.

        Gives whether it was done: not if one of them is no longer here, or the log was cut, since ``cuts``.
        Whoever reads the old ones goes on; their files are removed by ``delete_pending_segments`` later.
        """
        async with self._flushing.one_at_a_time():
            self._trust.require()
            if cuts != self._cuts or not self._segments.holds(old):
                return False
            try:
                await self._place.files.offload(cleaned.promote)
            except FileNotFoundError:  # the directory may be on its way out under another name
                return False
            except OSError as error:
                raise self._trust.refusal(error, "replace segments of") from error
            if cuts != self._cuts or not self._segments.holds(old):
                await self._place.files.offload(cleaned.discard)
                return False
            due_ms = monotonic_ms + self._config.file_delete_delay_ms
            try:
                self._leaving.add(old[:1], due_ms, keeps_snapshots=True)
                self._leaving.add(old[1:], due_ms)
                new = cleaned.take_place()
            except OSError as error:
                raise self._trust.lose(error, "replace segments of") from error
            self._segments.replace(old, new)
            await self._sync_names()
            return True

    def storage_error(self, error: OSError, what: str) -> Exception:
        """What to raise when the disk would not ``what`` the log; an error that stays is the log's end."""
        return self._trust.refusal(error, what)

    # Durability.

    def maintenance_lock(self) -> asyncio.Lock:
        """Held by all who sync the log or change names of its files: no two do so at a time."""
        return self._flushing.one_at_a_time()

    async def flush(self) -> None:
        """Bring all that is appended so far to the disk, and let ``recovery_point`` say so."""
        async with self._flushing.one_at_a_time():
            self._trust.require()
            if not self._is_dirty:
                return
            end_offset, cuts = self.log_end_offset, self._cuts
            snapshots, offsets = self._producers.plan(self._place)
            try:
                await self._place.files.offload(self._plan_flush(snapshots))
            except DiskFull as error:
                self._flushing.give_back()
                raise StorageError(f"cannot flush {self._place.directory} yet: {error}") from error
            except OSError as error:
                self._flushing.give_back()
                refusal = self._trust.sync_refusal(error, "sync")
                raise refusal if self.failure else StorageError(str(refusal)) from error
            if cuts == self._cuts:
                self._producers.written(offsets)
                self.recovery_point = max(self.recovery_point, end_offset)
            else:
                await self._unwrite(self._producers.strays_of(offsets))

    async def _unwrite(self, snapshot_offsets: list[int]) -> None:
        """Remove snapshots that were written while the log was cut: they speak of batches that are gone."""
        try:
            await self._place.files.offload(lambda: remove_snapshots(self._place, snapshot_offsets))
        except OSError as error:
            raise self._trust.lose(error, "cut") from error
        self._flushing.names_changed = True

    @property
    def _is_dirty(self) -> bool:
        return (
            self.log_end_offset != self.recovery_point
            or self._producers.is_due
            or self._flushing.is_due(self.epochs.entries)
        )

    def _plan_flush(self, snapshots: Callable[[], None] | None) -> Callable[[], None]:
        # A segment that ends at the recovery point has its batches on the disk, but perhaps not its indexes.
        unflushed = self._segments.since(self.recovery_point - 1)
        return self._flushing.plan(unflushed, self._active, self.epochs.entries, snapshots)

    async def close(self) -> None:
        """Flush everything, indexes too, and close: what a clean stop means. No use of the log after."""
        plan = self.plan_close()
        if plan is not None:
            try:
                await self._place.files.offload(plan)
            except OSError as error:
                raise self._trust.lose(error, "close") from error
        self.finish_close()

    def plan_close(self) -> Callable[[], None] | None:
        """The part of closing that waits, to be run away from the loop; ``None`` if nothing is to be done."""
        self._trust.require()
        self._producers.take_snapshot(self.log_end_offset)
        snapshots, _ = self._producers.plan(self._place)
        if self._active is None:
            return self._plan_flush(snapshots) if self._is_dirty else None
        try:
            sealed = self._active.seal()
        except OSError as error:
            raise self._trust.lose(error, "close") from error
        flush = self._plan_flush(snapshots)

        def work() -> None:
            sealed.sync()
            flush()

        return work

    def finish_close(self) -> None:
        """The rest of closing, once the plan was carried out."""
        self.recovery_point = self.log_end_offset
        for segment in self._segments:
            segment.close()

    def rename_directory(self, kind: DirectoryKind) -> str:
        """Give the log's directory the name of another kind, and return its path. The log goes on as it is.

        Whoever calls this holds ``maintenance_lock``, and makes the name durable.
        """
        parent = self._place.directory.rpartition("/")[0]
        unique = "" if kind is DirectoryKind.CURRENT else self._entropy.uuid().hex()
        path = f"{parent}/{directory_name(self.topic_partition, kind, unique)}"
        try:
            self._place.files.rename(self._place.directory, path)
        except OSError as error:
            raise self._trust.refusal(error, "rename") from error
        self._place.directory = path
        return path

    def rename_for_deletion(self) -> str:
        """Give the directory a name that marks it as going, and return its path. The log is no longer used.

        What is being sent from it still is: open files do not mind their names.
        """
        path = self.rename_directory(DirectoryKind.DELETE)
        for segment in self._segments:
            self._place.opened.forget(segment)
            segment.let_go()
        return path


def _seal_anyway(active: ActiveSegment) -> LogSegment:
    """Put a segment to rest though the disk may be full."""
    try:
        return active.seal()
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        return active.seal_without_room()
