"""AlterReplicaLogDirs: moves of logs between the log directories of a broker, while the logs are in use.

A future log is created in the target directory and filled from the current log as a follower's would be:
batches byte for byte, leader epochs, log start offset and high watermark. Once it has caught up it replaces
the current log:

1. the future log is flushed, so that deleting the current log loses nothing that was on disk;
2. the last batches are copied, the current log's directory is renamed for deletion, and the partition
   switches to the future log, all in one step of the event loop;
3. the first rename is made durable, and only then is the future log's directory renamed to the current name.

Invariant: at no time do two directories hold a log under the partition's current name. If none does, the
future log is complete, and the next start uses it (``LogManager.load``). Until step 3 is done nothing is
flushed, so nothing is acknowledged as flushed that a crash could undo.

The current log is only read, and a move that fails leaves it as it is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from odradek.log.directory.log_directory import LogDirectory
from odradek.log.leader_epoch_cache import LeaderEpochCache
from odradek.log.log import Log
from odradek.log.log_manager import LogManager
from odradek.log.old_segments import delete_old_segments
from odradek.log.segments import page_in
from odradek.log.segments.segment_format import DIRECTORY_NAME_LENGTH_MAX, DirectoryKind, directory_name
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import NO_LEADER_EPOCH, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.files import FileSlice
from odradek.replication.log_dirs.alter_log_dirs_throttle import AlterLogDirsLimits, AlterLogDirsThrottle
from odradek.replication.partition import Partition
from odradek.telemetry import events

PREFERRED_MAX: Final = 10_000
"""Remembered directories for partitions not on this broker yet. Clients may request any number."""

BASE_OFFSET_BYTES: Final = 8
"""Size of the base offset, a batch's first field."""

_DISK_FULL: Final = ErrorCode.KAFKA_STORAGE_ERROR

log = events.logger("alter_log_dirs")


class CleaningPause(Protocol):
    """Control of the log cleaner: a log must not be cleaned while it is copied."""

    async def pause(self, topic_partition: TopicPartition) -> None: ...

    def resume(self, topic_partition: TopicPartition) -> None: ...

    def move_checkpoint(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """Move the partition's cleaner checkpoint along with its log."""
        ...


class NoCleaning:
    """Cleaning control for a broker without a log cleaner."""

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Do nothing."""

    def resume(self, topic_partition: TopicPartition) -> None:
        """Do nothing."""

    def move_checkpoint(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """Do nothing."""


class _Move:
    __slots__ = ("future", "is_paused", "partition", "source", "target", "task")

    def __init__(self, partition: Partition, source: LogDirectory, target: LogDirectory, future: Log) -> None:
        self.source = source
        self.is_paused = False
        """True while cleaning of the partition is paused for this move."""
        self.partition = partition
        self.target = target
        self.future = future
        self.task: asyncio.Task[None] | None = None


class AlterLogDirs:
    """``find`` returns a partition of this broker, ``partition_error`` the error if there is none."""

    def __init__(
        self,
        log_manager: LogManager,
        find: Callable[[str, int], Partition | None],
        partition_error: Callable[[str, int], BrokerError],
        clock: Clock,
        limits: Callable[[], AlterLogDirsLimits],
        cleaning: CleaningPause,
    ) -> None:
        self._log_manager = log_manager
        self._find = find
        self._partition_error = partition_error
        self._clock = clock
        self._limits = limits
        self._cleaning = cleaning
        self.on_low_watermark: Callable[[Partition], object] = lambda _: None
        """Called when the low watermark of a partition may have moved with its future log."""
        self._throttle = AlterLogDirsThrottle(clock, lambda: limits().bytes_per_second_max)
        self._moves: dict[TopicPartition, _Move] = {}
        self._preferred: OrderedDict[TopicPartition, str] = OrderedDict()
        self._request_lock = asyncio.Lock()
        self._copy_slots = asyncio.Semaphore(limits().moves_max or max(len(log_manager.paths), 1))
        self._tasks: set[asyncio.Task[None]] = set()
        self._restart_tasks: set[asyncio.Task[None]] = set()

    # Requests.

    async def request(self, topic_partition: TopicPartition, path: str) -> None:
        """Move a partition's log to this directory. A move of it to another directory is cancelled.

        Returns once the future log exists; the move then survives restarts. If the partition is not on this
        broker, remembers the directory for its creation and raises ``BrokerError``.
        """
        async with self._request_lock:
            target = self._target_at(topic_partition, path)
            partition = self._find(*topic_partition)
            if partition is None:
                raise self._remember_preferred(topic_partition, path)
            move = self._moves.get(topic_partition)
            if move is not None and move.target is not target:
                self.drop(topic_partition)
                move = None
            if target.get(topic_partition) is partition.log:
                return
            if move is None:
                await self._create_future_log(partition, self._source_of(topic_partition), target)
            elif move.task is None or move.task.done():
                self._start_copy(move)

    def _target_at(self, topic_partition: TopicPartition, path: str) -> LogDirectory:
        if len(directory_name(topic_partition, DirectoryKind.FUTURE, "0" * 32)) > DIRECTORY_NAME_LENGTH_MAX:
            raise BrokerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name must fit in a directory name, got {len(topic_partition.topic)} characters",
            )
        if path not in self._log_manager.paths:
            raise BrokerError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")
        target = self._log_manager.find_directory(path)
        if target is None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {path} is offline")
        return target

    def _remember_preferred(self, topic_partition: TopicPartition, path: str) -> BrokerError:
        error = self._partition_error(*topic_partition)
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            return error
        self._preferred[topic_partition] = path
        self._preferred.move_to_end(topic_partition)
        if len(self._preferred) > PREFERRED_MAX:
            self._preferred.popitem(last=False)
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return BrokerError(ErrorCode.REPLICA_NOT_AVAILABLE, error.message)
        return error

    def take_preferred(self, topic_partition: TopicPartition) -> str | None:
        """Return, and forget, the directory requested for a log that is about to be created."""
        return self._preferred.pop(topic_partition, None)

    def _source_of(self, topic_partition: TopicPartition) -> LogDirectory:
        directory_and_log = self._log_manager.find(topic_partition)
        if directory_and_log is None:  # its directory has just failed
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        return directory_and_log[0]

    async def _create_future_log(
        self, partition: Partition, source: LogDirectory, target: LogDirectory
    ) -> None:
        topic_partition, current = partition.topic_partition, partition.log
        if self._log_manager.failed:
            # A failed directory may hold a future log of this partition.
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR, "logs cannot be moved while a log directory is offline"
            )
        try:
            start = await _first_base_offset(current, source)
            future = await target.create(
                topic_partition, current.config, partition.topic_id, DirectoryKind.FUTURE, start
            )
        except StorageError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if self._find(*topic_partition) is not partition:  # deleted meanwhile
            self._drop_future(target, topic_partition)
            raise BrokerError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self._start_copy(_Move(partition, source, target, future))
        log.info("move_started", partition=topic_partition, source=source.path, target=target.path)

    def resume(self, partition: Partition) -> None:
        """Resume the move that a restart has interrupted, if there is one."""
        topic_partition = partition.topic_partition
        source = self._source_of(topic_partition)
        for directory in self._log_manager:
            future = directory.future.get(topic_partition)
            if future is None:
                continue
            is_ours = future.topic_id in (None, partition.topic_id)
            if is_ours and topic_partition not in self._moves and directory is not source:
                self._start_copy(_Move(partition, source, directory, future))
            else:
                self._drop_future(directory, topic_partition)

    # Ending moves.

    def drop(self, topic_partition: TopicPartition) -> None:
        """Cancel the move of a partition, if there is one, and delete its future log."""
        move = self._end_move(topic_partition)
        if move is not None:
            self._drop_future(move.target, topic_partition)

    def on_directory_failure(self, directory: LogDirectory) -> None:
        """End moves to and from a failed directory. Files stay as they are."""
        for topic_partition, move in list(self._moves.items()):
            if directory in (move.source, move.target):
                self._end_move(topic_partition)

    async def stop(self) -> None:
        """Stop copying; unfinished moves resume after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._restart_tasks, return_exceptions=True)

    def _end_move(self, topic_partition: TopicPartition) -> _Move | None:
        move = self._moves.pop(topic_partition, None)
        if move is not None:
            self._resume_cleaning(move)
            if move.task is not None and move.task is not asyncio.current_task():
                move.task.cancel()
            self._forget_future_log(move)
        return move

    def _forget_future_log(self, move: _Move) -> None:
        move.partition.future_log = None
        self.on_low_watermark(move.partition)

    def _drop_future(self, target: LogDirectory, topic_partition: TopicPartition) -> None:
        if topic_partition in target.future:
            try:
                target.delete_future(topic_partition, self._clock.monotonic_ms())
            except (BrokerError, StorageError) as error:
                log.error("future_log_deletion_failed", partition=topic_partition, reason=str(error))

    # Copying.

    def _start_copy(self, move: _Move) -> None:
        self._moves[move.partition.topic_partition] = move
        move.partition.future_log = move.future
        task = move.task = asyncio.get_running_loop().create_task(self._run(move))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, move: _Move) -> None:
        topic_partition = move.partition.topic_partition
        try:
            await self._pause_cleaning(move)
            while not await self._try_copy(move):
                await self._clock.sleep_ms(self._limits().retry_ms)
        except (BrokerError, StorageError) as error:
            # The current log stays; DescribeLogDirs shows the lag of the future log.
            log.error("move_failed", partition=topic_partition, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("move_crashed", error, partition=topic_partition)

    async def _pause_cleaning(self, move: _Move) -> None:
        if not move.is_paused:
            move.is_paused = True
            await self._cleaning.pause(move.partition.topic_partition)

    def _resume_cleaning(self, move: _Move) -> None:
        if move.is_paused:
            move.is_paused = False
            self._cleaning.resume(move.partition.topic_partition)

    async def _try_copy(self, move: _Move) -> bool:
        """Copy until the move is done; return False if it must wait for disk space."""
        current = move.partition.log
        try:
            async with self._copy_slots:
                await self._copy(move, current)
        except (BrokerError, StorageError) as error:
            failures = (current.failure, move.source.failure, move.target.failure)
            is_broken = any(failure is not None for failure in failures)
            if is_broken or (isinstance(error, BrokerError) and error.code != _DISK_FULL):
                raise
            log.warning("move_waiting_for_space", partition=move.partition.topic_partition, reason=str(error))
            return False
        return True

    async def _copy(self, move: _Move, current: Log) -> None:
        future = move.future
        while True:
            if not self._truncate_future(current, future):
                self._restart(move)
                return
            if future.log_end_offset < current.log_end_offset:
                copied_bytes = await self._copy_chunk(move, current)
                await self._throttle.throttle(copied_bytes)
            elif await self._replace_current_log(move, current):
                return
            else:
                await asyncio.sleep(0)  # let the appends run that keep the future log from catching up

    def _truncate_future(self, current: Log, future: Log) -> bool:
        """Truncate the future log to a prefix of the current one; return False if it must be recreated."""
        now_ms = self._clock.wall_ms()
        if future.config is not current.config:
            future.configure(current.config)
        if future.log_end_offset < current.log_start_offset and future.size_bytes:
            return False  # it would have a gap
        end_offset = common_end(current, future)
        if end_offset < future.log_end_offset:
            if end_offset < max(future.segments[-1].base_offset, future.log_start_offset):
                return False
            future.truncate_to(end_offset, now_ms)
        return True

    async def _copy_chunk(self, move: _Move, current: Log) -> int:
        offset = self._next_offset(current, move.future)
        await _page_in(current, offset)
        if offset != self._next_offset(current, move.future):
            return 0  # the log start offset has moved: start over
        data_or_slice = current.read(offset, self._limits().chunk_bytes_max).data
        data = (
            await move.source.offload_read(data_or_slice.read)
            if isinstance(data_or_slice, FileSlice)
            else data_or_slice
        )
        self._append(move, current, data)
        if self._update_offsets(move, current):
            await delete_old_segments(move.future, self._clock.wall_ms(), self._clock.monotonic_ms())
        return len(data)

    def _next_offset(self, current: Log, future: Log) -> int:
        # The log start offset may be inside a batch, and the future log begins with that batch.
        return max(future.log_end_offset, current.log_start_offset)

    def _append(self, move: _Move, current: Log, data: bytes) -> None:
        now_ms = self._clock.wall_ms()
        if data:
            move.future.append_as_follower(data, move.partition.leader_epoch, now_ms)
        else:
            move.future.skip_to(current.log_end_offset, now_ms)

    def _update_offsets(self, move: _Move, current: Log) -> bool:
        """Copy high watermark and log start offset; return whether whole segments precede the start."""
        future = move.future
        future.high_watermark = min(current.high_watermark, future.log_end_offset)
        start = min(current.log_start_offset, future.high_watermark)
        has_moved = future.advance_log_start_offset(start)
        if has_moved:
            self.on_low_watermark(move.partition)
        return has_moved and len(future.segments) > 1 and future.segments[1].base_offset <= start

    def _restart(self, move: _Move) -> None:
        """Delete the future log, and start the move again."""
        topic_partition, path = move.partition.topic_partition, move.target.path
        self.drop(topic_partition)
        task = asyncio.get_running_loop().create_task(self._request_restart(topic_partition, path))
        self._restart_tasks.add(task)
        task.add_done_callback(self._restart_tasks.discard)

    async def _request_restart(self, topic_partition: TopicPartition, path: str) -> None:
        with suppress(BrokerError):  # the partition was deleted, or its directory failed
            await self.request(topic_partition, path)

    # Replacing the current log.

    async def _replace_current_log(self, move: _Move, current: Log) -> bool:
        """Replace the current log by the future log; return False if there is more to copy first."""
        topic_partition, future = move.partition.topic_partition, move.future
        source, target = move.source, move.target
        async with current.maintenance_lock():
            self._update_offsets(move, current)
            future.epochs = LeaderEpochCache(current.epochs.entries)
            await future.flush()
            if future.log_start_offset > future.segments[0].base_offset:
                await target.checkpoint_log_start_offsets()
            async with future.maintenance_lock():
                if not self._is_ready(move, current):
                    return False
                old_path = source.mark_deleted(topic_partition)
                target.promote_future(topic_partition)
                self._copy_state(current, future)
                move.partition.replace_log(future)
                self._moves.pop(topic_partition, None)
                self._forget_future_log(move)
                await self._make_names_durable(move, current, old_path)
        log.info("move_finished", partition=topic_partition, source=source.path, target=target.path)
        return True

    def _is_ready(self, move: _Move, current: Log) -> bool:
        """Copy what was appended during the flush, and return whether the future log is complete."""
        future = move.future
        for directory in (move.source, move.target):
            if directory.failure is not None:
                raise directory.failure
        if self._moves.get(move.partition.topic_partition) is not move or not self._truncate_future(
            current, future
        ):
            return False
        if future.log_end_offset < current.log_end_offset:
            offset = self._next_offset(current, future)
            data_or_slice = current.read(offset, self._limits().chunk_bytes_max).data
            self._append(
                move, current, data_or_slice.read() if isinstance(data_or_slice, FileSlice) else data_or_slice
            )
        return (
            future.log_end_offset == current.log_end_offset
            and future.recovery_point >= current.recovery_point
        )

    def _copy_state(self, current: Log, future: Log) -> None:
        """Copy the state of a log that is not in its batches."""
        future.high_watermark = current.high_watermark
        future.advance_log_start_offset(current.log_start_offset)
        future.epochs = LeaderEpochCache(current.epochs.entries)
        future.flushed_ms = current.flushed_ms

    def _rename_to_current(self, future: Log) -> bool:
        """Rename a future log's directory to the current name; return False if the disk is full."""
        try:
            future.rename_directory(DirectoryKind.CURRENT)
        except BrokerError as error:
            log.warning("move_waiting_for_space", partition=future.topic_partition, reason=str(error))
            return False
        return True

    async def _make_names_durable(self, move: _Move, current: Log, old_path: str) -> None:
        """Make the renames durable, in the order that leaves at most one log under the current name."""
        topic_partition, source, target = move.partition.topic_partition, move.source, move.target
        self._cleaning.move_checkpoint(topic_partition, source, target)
        self._resume_cleaning(move)
        with suppress(StorageError):  # the old directory has failed; the log is no longer in it
            await source.sync_directory()
        while target.get(topic_partition) is move.future and not self._rename_to_current(move.future):
            await self._clock.sleep_ms(self._limits().retry_ms)
        await target.sync_directory()
        source.schedule_delete(old_path, self._clock.monotonic_ms() + current.config.file_delete_delay_ms)
        with suppress(StorageError):  # the next scheduled checkpoint logs the failure
            await source.checkpoint_recovery_points()
            await source.checkpoint_log_start_offsets()


def common_end(current: Log, future: Log) -> int:
    """Return the end offset up to which both logs are equal, by their leader epochs.

    Goes back epoch by epoch until both logs know the epoch: where each has epochs that the other lacks, the
    end of the first epoch known to one of them is not yet the point of divergence.
    """
    end_offset = min(current.log_end_offset, future.log_end_offset)
    future_epoch = future.epochs.latest
    current_epoch = NO_LEADER_EPOCH
    while future_epoch != current_epoch:
        current_epoch, epoch_end = current.end_offset_for_epoch(future_epoch)
        if current_epoch < 0:
            return min(end_offset, max(epoch_end, 0))
        future_epoch, future_end = future.end_offset_for_epoch(current_epoch)
        end_offset = min(end_offset, epoch_end, future_end)
    return end_offset


async def _page_in(current: Log, offset: int) -> None:
    """Page in what the event loop needs to find a batch without waiting for the disk."""
    with suppress(BrokerError):  # the read itself will raise it
        await page_in.read(current.segments, lambda may_block: current.read(offset, 1, may_block=may_block))


async def _first_base_offset(current: Log, source: LogDirectory) -> int:
    """Return the base offset of the batch at the log start offset: a copy of the log begins with it."""
    await _page_in(current, current.log_start_offset)
    data_or_slice = current.read(current.log_start_offset, 1).data
    if not isinstance(data_or_slice, FileSlice):
        return current.log_start_offset
    head = FileSlice(data_or_slice.file, data_or_slice.position, BASE_OFFSET_BYTES)
    return int.from_bytes(await source.offload_read(head.read), "big")
