"""Logs on their way from one data directory to another (AlterReplicaLogDirs), while they are served.

A future log is begun in the target directory and fed from the current one as a follower would be: batches as
they are, leader epochs, start and high watermark. Once it has everything it takes the current one's place:

1. the future log is flushed, so that giving up the current one loses nothing that was on a disk;
2. the last batches are copied, the current log's directory is renamed to mark it as going, and the partition
   goes on with the future log, all in one step of the event loop;
3. the first rename is made durable, and only then the future log's directory gets the plain name.

Invariant: at no moment do two directories hold a log under the partition's plain name. Where none does, the
future log is complete, and the next start lets it be the partition's (``LogManager.load``). Until step 3
is done nothing is flushed, so nothing is promised that a crash could take back.

The current log is only read, and a move that cannot go on leaves it as it is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from odradek.log.leader_epoch_cache import LeaderEpochCache
from odradek.log.log import Log
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.log.segments import page_in
from odradek.log.segments.segment_format import DIRECTORY_NAME_LENGTH_MAX, DirectoryKind, directory_name
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import NO_LEADER_EPOCH, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.files import FileSlice
from odradek.replication.alter_log_dirs_throttle import AlterLogDirsLimits, AlterLogDirsThrottle
from odradek.replication.partition import Partition
from odradek.telemetry import events

PREFERRED_MAX: Final = 10_000
"""Partitions that are not here yet for which a directory is remembered. Anyone may ask for more of them."""

OFFSET_BYTES: Final = 8
"""A batch begins with its base offset."""

_NO_ROOM: Final = ErrorCode.KAFKA_STORAGE_ERROR

log = events.logger("log_moves")


class CleaningPause(Protocol):
    """What a move asks of compaction: a log that is copied must not change behind the copy."""

    async def pause(self, topic_partition: TopicPartition) -> None: ...

    def resume(self, topic_partition: TopicPartition) -> None: ...

    def move_checkpoint(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """The partition's log is in another directory now, and so is what is known of its cleaning."""
        ...


class NoCleaning:
    """Where nothing is compacted."""

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Nothing to pause."""

    def resume(self, topic_partition: TopicPartition) -> None:
        """Nothing to resume."""

    def move_checkpoint(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """Nothing to take along."""


class _Move:
    __slots__ = ("future", "is_paused", "partition", "source", "target", "task")

    def __init__(self, partition: Partition, source: LogDirectory, target: LogDirectory, future: Log) -> None:
        self.source = source
        self.is_paused = False
        """Whether compaction of the partition is held up for this move."""
        self.partition = partition
        self.target = target
        self.future = future
        self.task: asyncio.Task[None] | None = None


class AlterLogDirs:
    """``find`` gives a partition of this broker, ``partition_error`` the refusal if there is none."""

    def __init__(
        self,
        directories: LogManager,
        find: Callable[[str, int], Partition | None],
        partition_error: Callable[[str, int], BrokerError],
        clock: Clock,
        limits: Callable[[], AlterLogDirsLimits],
        cleaning: CleaningPause,
    ) -> None:
        self._directories = directories
        self._find = find
        self._why_not = partition_error
        self._clock = clock
        self._limits = limits
        self._cleaning = cleaning
        self._pace = AlterLogDirsThrottle(clock, lambda: limits().bytes_per_second_max)
        self._moves: dict[TopicPartition, _Move] = {}
        self._preferred: OrderedDict[TopicPartition, str] = OrderedDict()
        self._altering = asyncio.Lock()
        self._turns = asyncio.Semaphore(limits().moves_max or max(len(directories.paths), 1))
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarts: set[asyncio.Task[None]] = set()

    # Requests.

    async def request(self, topic_partition: TopicPartition, path: str) -> None:
        """Let a partition's log move to this directory, or stay there: any other move of it ends.

        Returns once the move is begun, which then survives restarts. Of a partition that is not here the
        directory is remembered for when it is, and ``BrokerError`` says so.
        """
        async with self._altering:
            target = self._target(topic_partition, path)
            partition = self._find(*topic_partition)
            if partition is None:
                raise self._remember(topic_partition, path)
            move = self._moves.get(topic_partition)
            if move is not None and move.target is not target:
                self.drop(topic_partition)
                move = None
            if target.get(topic_partition) is partition.log:
                return
            if move is None:
                await self._begin(partition, self._source(topic_partition), target)
            elif move.task is None or move.task.done():
                self._start(move)

    def _target(self, topic_partition: TopicPartition, path: str) -> LogDirectory:
        if len(directory_name(topic_partition, DirectoryKind.FUTURE, "0" * 32)) > DIRECTORY_NAME_LENGTH_MAX:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the name of the topic is too long")
        if path not in self._directories.paths:
            raise BrokerError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of log.dirs")
        target = self._directories.find_directory(path)
        if target is None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} has failed")
        return target

    def _remember(self, topic_partition: TopicPartition, path: str) -> BrokerError:
        why = self._why_not(*topic_partition)
        if why.code == ErrorCode.KAFKA_STORAGE_ERROR:
            return why
        self._preferred[topic_partition] = path
        self._preferred.move_to_end(topic_partition)
        if len(self._preferred) > PREFERRED_MAX:
            self._preferred.popitem(last=False)
        if why.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return BrokerError(ErrorCode.REPLICA_NOT_AVAILABLE, why.message)
        return why

    def take_preferred(self, topic_partition: TopicPartition) -> str | None:
        """Where a log that is about to be made was asked to be."""
        return self._preferred.pop(topic_partition, None)

    def _source(self, topic_partition: TopicPartition) -> LogDirectory:
        place = self._directories.find(topic_partition)
        if place is None:  # it has failed just now
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        return place[0]

    async def _begin(self, partition: Partition, source: LogDirectory, target: LogDirectory) -> None:
        topic_partition, current = partition.topic_partition, partition.log
        if self._directories.failed:
            # One of them may hold a future log of this partition already.
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "no log is moved while a directory is missing")
        try:
            start = await _first_base_offset(current, source)
            future = await target.create(
                topic_partition, current.config, partition.topic_id, DirectoryKind.FUTURE, start
            )
        except StorageError as broken:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(broken)) from broken
        if self._find(*topic_partition) is not partition:  # deleted meanwhile
            self._drop_future(target, topic_partition)
            raise BrokerError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self._start(_Move(partition, source, target, future))
        log.info("move_begun", partition=topic_partition, source=source.path, target=target.path)

    def resume(self, partition: Partition) -> None:
        """Go on with the move that a restart has interrupted, if there is one."""
        topic_partition = partition.topic_partition
        source = self._source(topic_partition)
        for directory in self._directories:
            future = directory.future.get(topic_partition)
            if future is None:
                continue
            is_ours = future.topic_id in (None, partition.topic_id)
            if is_ours and topic_partition not in self._moves and directory is not source:
                self._start(_Move(partition, source, directory, future))
            else:
                self._drop_future(directory, topic_partition)

    # The end of moves.

    def drop(self, topic_partition: TopicPartition) -> None:
        """End the move of a partition, if there is one, and give up what it had copied."""
        move = self._forget(topic_partition)
        if move is not None:
            self._drop_future(move.target, topic_partition)

    def forget_directory(self, directory: LogDirectory) -> None:
        """A directory failed: nothing moves to it or from it any longer. Files stay as they are."""
        for topic_partition, move in list(self._moves.items()):
            if directory in (move.source, move.target):
                self._forget(topic_partition)

    async def stop(self) -> None:
        """End the work; moves that are not done go on after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._restarts, return_exceptions=True)

    def _forget(self, topic_partition: TopicPartition) -> _Move | None:
        move = self._moves.pop(topic_partition, None)
        if move is not None:
            self._resume_cleaning(move)
            if move.task is not None and move.task is not asyncio.current_task():
                move.task.cancel()
        return move

    def _drop_future(self, target: LogDirectory, topic_partition: TopicPartition) -> None:
        if topic_partition in target.future:
            try:
                target.delete_future(topic_partition, self._clock.monotonic_ms())
            except (BrokerError, StorageError) as broken:
                log.error("future_log_not_deleted", partition=topic_partition, reason=str(broken))

    # The work.

    def _start(self, move: _Move) -> None:
        self._moves[move.partition.topic_partition] = move
        task = move.task = asyncio.get_running_loop().create_task(self._run(move))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, move: _Move) -> None:
        topic_partition = move.partition.topic_partition
        try:
            await self._pause_cleaning(move)
            while not await self._try(move):
                await self._clock.sleep_ms(self._limits().retry_ms)
        except (BrokerError, StorageError) as broken:
            # It stays where it is; DescribeLogDirs shows what it lacks.
            log.error("move_failed", partition=topic_partition, reason=str(broken))
        except Exception as broken:  # noqa: BLE001 - the edge of a task
            log.failure("move_broken", broken, partition=topic_partition)

    async def _pause_cleaning(self, move: _Move) -> None:
        if not move.is_paused:
            move.is_paused = True
            await self._cleaning.pause(move.partition.topic_partition)

    def _resume_cleaning(self, move: _Move) -> None:
        if move.is_paused:
            move.is_paused = False
            self._cleaning.resume(move.partition.topic_partition)

    async def _try(self, move: _Move) -> bool:
        """Copy until the move is over; False if it has to wait for room."""
        current = move.partition.log
        try:
            async with self._turns:
                await self._copy(move, current)
        except (BrokerError, StorageError) as refused:
            trusted = (current.failure, move.source.failure, move.target.failure)
            is_broken = any(failure is not None for failure in trusted)
            if is_broken or (isinstance(refused, BrokerError) and refused.code != _NO_ROOM):
                raise
            log.warning("move_waits", partition=move.partition.topic_partition, reason=str(refused))
            return False
        return True

    async def _copy(self, move: _Move, current: Log) -> None:
        future = move.future
        while True:
            if not self._align(current, future):
                self._begin_again(move)
                return
            if future.log_end_offset < current.log_end_offset:
                copied_bytes = await self._copy_piece(move, current)
                await self._pace.keep(copied_bytes)
            elif await self._switch(move, current):
                return
            else:
                await asyncio.sleep(0)  # whoever keeps this move from its end must have a turn

    def _align(self, current: Log, future: Log) -> bool:
        """Let the future log be a part of the current one again; False if it must begin anew."""
        now_ms = self._clock.wall_ms()
        if future.config is not current.config:
            future.configure(current.config)
        if future.log_end_offset < current.log_start_offset and future.size_bytes:
            return False  # it would have a hole
        end_offset = common_end(current, future)
        if end_offset < future.log_end_offset:
            if end_offset < max(future.segments[-1].base_offset, future.log_start_offset):
                return False
            future.truncate_to(end_offset, now_ms)
        return True

    async def _copy_piece(self, move: _Move, current: Log) -> int:
        offset = self._next_offset(current, move.future)
        await _have_at_hand(current, offset)
        if offset != self._next_offset(current, move.future):
            return 0  # the log starts later by now: look again what that means
        found = current.read(offset, self._limits().piece_bytes_max).data
        data = await move.source.offload_read(found.read) if isinstance(found, FileSlice) else found
        self._append(move, current, data)
        if self._follow_bounds(current, move.future):
            await move.future.delete_old_segments(self._clock.wall_ms(), self._clock.monotonic_ms())
        return len(data)

    def _next_offset(self, current: Log, future: Log) -> int:
        # The start may lie in the midst of a batch, and the future log begins with that batch.
        return max(future.log_end_offset, current.log_start_offset)

    def _append(self, move: _Move, current: Log, data: bytes) -> None:
        now_ms = self._clock.wall_ms()
        if data:
            move.future.append_as_follower(data, move.partition.leader_epoch, now_ms)
        else:
            move.future.skip_to(current.log_end_offset, now_ms)

    def _follow_bounds(self, current: Log, future: Log) -> bool:
        """Take high watermark and start over; True if whole segments lie before the start."""
        future.high_watermark = min(current.high_watermark, future.log_end_offset)
        start = min(current.log_start_offset, future.high_watermark)
        has_moved = future.advance_log_start_offset(start)
        return has_moved and len(future.segments) > 1 and future.segments[1].base_offset <= start

    def _begin_again(self, move: _Move) -> None:
        """Drop what was copied, and move the partition anew."""
        topic_partition, path = move.partition.topic_partition, move.target.path
        self.drop(topic_partition)
        task = asyncio.get_running_loop().create_task(self._request_again(topic_partition, path))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _request_again(self, topic_partition: TopicPartition, path: str) -> None:
        with suppress(BrokerError):  # the partition is gone, or its directory
            await self.request(topic_partition, path)

    # The last steps.

    async def _switch(self, move: _Move, current: Log) -> bool:
        """Let the future log take the current one's place; False if there is more to copy first."""
        topic_partition, future = move.partition.topic_partition, move.future
        source, target = move.source, move.target
        async with current.maintenance_lock():
            self._follow_bounds(current, future)
            future.epochs = LeaderEpochCache(current.epochs.entries)
            await future.flush()
            if future.log_start_offset > future.segments[0].base_offset:
                await target.checkpoint_log_start_offsets()
            async with future.maintenance_lock():
                if not self._is_ready(move, current):
                    return False
                old_path = source.mark_deleted(topic_partition)
                target.promote_future(topic_partition)
                self._hand_over(current, future)
                move.partition.log = future
                self._moves.pop(topic_partition, None)
                await self._settle(move, current, old_path)
        log.info("move_done", partition=topic_partition, source=source.path, target=target.path)
        return True

    def _is_ready(self, move: _Move, current: Log) -> bool:
        """Copy what came during the flush, which is in memory, and say whether nothing is missing then."""
        future = move.future
        for directory in (move.source, move.target):
            if directory.failure is not None:
                raise directory.failure
        if self._moves.get(move.partition.topic_partition) is not move or not self._align(current, future):
            return False
        if future.log_end_offset < current.log_end_offset:
            offset = self._next_offset(current, future)
            found = current.read(offset, self._limits().piece_bytes_max).data
            self._append(move, current, found.read() if isinstance(found, FileSlice) else found)
        return (
            future.log_end_offset == current.log_end_offset
            and future.recovery_point >= current.recovery_point
        )

    def _hand_over(self, current: Log, future: Log) -> None:
        """What a log knows that its batches do not tell."""
        future.high_watermark = current.high_watermark
        future.advance_log_start_offset(current.log_start_offset)
        future.epochs = LeaderEpochCache(current.epochs.entries)
        future.flushed_ms = current.flushed_ms

    def _is_named(self, future: Log) -> bool:
        """Give a log the plain name; False if there is no room for it now."""
        try:
            future.rename_directory(DirectoryKind.CURRENT)
        except BrokerError as refused:
            log.warning("move_waits", partition=future.topic_partition, reason=str(refused))
            return False
        return True

    async def _settle(self, move: _Move, current: Log, old_path: str) -> None:
        """Make the names durable, in the order that leaves one log under the plain name at most."""
        topic_partition, source, target = move.partition.topic_partition, move.source, move.target
        self._cleaning.move_checkpoint(topic_partition, source, target)
        self._resume_cleaning(move)
        with suppress(StorageError):  # the old directory has failed; the log is no longer there
            await source.sync_directory()
        while target.get(topic_partition) is move.future and not self._is_named(move.future):
            await self._clock.sleep_ms(self._limits().retry_ms)
        await target.sync_directory()
        source.schedule_delete(old_path, self._clock.monotonic_ms() + current.config.file_delete_delay_ms)
        with suppress(StorageError):  # told as a chore that failed, the next time
            await source.checkpoint_recovery_points()
            await source.checkpoint_log_start_offsets()


def common_end(current: Log, future: Log) -> int:
    """Up to where a future log holds what the current one holds, by their leader epochs.

    Goes back from one epoch to the one before until both logs know it: where each has epochs that the other
    has not, the end of the first that one of them knows is not yet the place where they part.
    """
    end_offset = min(current.log_end_offset, future.log_end_offset)
    here = future.epochs.latest
    there = NO_LEADER_EPOCH
    while here != there:
        there, epoch_end = current.end_offset_for_epoch(here)
        if there < 0:
            return min(end_offset, max(epoch_end, 0))
        here, future_end = future.end_offset_for_epoch(there)
        end_offset = min(end_offset, epoch_end, future_end)
    return end_offset


async def _have_at_hand(current: Log, offset: int) -> None:
    """Let the event loop find a batch without waiting for the disk."""
    with suppress(BrokerError):  # what is wrong, the read itself will tell
        await page_in.read(
            current.segments, offset, lambda may_block: current.read(offset, 1, may_block=may_block)
        )


async def _first_base_offset(current: Log, source: LogDirectory) -> int:
    """Where the batch begins that holds the start of a log: a copy of the log begins there."""
    await _have_at_hand(current, current.log_start_offset)
    found = current.read(current.log_start_offset, 1).data
    if not isinstance(found, FileSlice):
        return current.log_start_offset
    head = FileSlice(found.file, found.position, OFFSET_BYTES)
    return int.from_bytes(await source.offload_read(head.read), "big")
