"""The logs of one log directory.

``.lock`` ensures that one broker at a time uses it. ``.kafka_cleanshutdown`` is written after a shutdown that
synced everything, and deleted first at the next startup, so that it is valid whenever it exists. Recovery
points, log start offsets, high watermarks and cleaner offsets are checkpointed here.

Names that do not belong to a log are ignored and listed in ``unknown``.

A directory fails as a whole and permanently: ``failure`` has the reason, ``on_failure`` is called once, and
the owner releases the directory with ``abandon``. A log that cannot be opened while others can is
``unusable`` alone: its checkpoints are kept, and the shutdown is not marked clean, so that the log is
recovered in full once it can be opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from odradek.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    encode_clean_shutdown,
)
from odradek.log.directory.directory_lock import lock_directory
from odradek.log.directory.log_closing import close_logs
from odradek.log.directory.log_creations import LogCreations
from odradek.log.directory.offset_checkpoints import OffsetCheckpoints
from odradek.log.directory.pending_directory_deletes import PendingDirectoryDeletes
from odradek.log.directory.rolled_logs import RolledLogs
from odradek.log.disk_health import TRANSIENT_ERRORS
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery.directory_loader import LogToLoad, list_directory, load_logs, open_listed_log
from odradek.log.recovery.load_progress import LoadState
from odradek.log.recovery.log_loader import LogLoadContext, RecoveryResult, create_log
from odradek.log.segments.log_segment import OpenSegments
from odradek.log.segments.segment_format import DirectoryKind, directory_name
from odradek.model.errors import StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileLock, FileSystem, Space

T = TypeVar("T")

ConfigOf = Callable[[str], LogConfig]
"""Returns the settings of a topic."""


class LogDirectory:
    """Created by ``open``. Not thread-safe."""

    def __init__(
        self, files: FileSystem, path: str, entropy: Entropy, lock: FileLock, directories: int = 1
    ) -> None:
        self.path = path
        self.had_clean_shutdown = False
        self.failure: StorageError | None = None
        self.on_failure: Callable[[LogDirectory], None] = lambda _: None
        self.future: dict[TopicPartition, Log] = {}
        self.strays: list[str] = []
        self.unknown: list[str] = []
        self.loading = LoadState()
        self.unusable: dict[TopicPartition, StorageError] = {}
        """Errors of logs that cannot be opened."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """Checkpointed high watermarks at startup."""
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """End of the cleaned section of each log; maintained by the log cleaner."""
        self._files = files
        self._entropy = entropy
        self._lock = lock
        self._logs: dict[TopicPartition, Log] = {}
        self._creating: set[TopicPartition] = set()
        self._creations = LogCreations(files, path)
        self._rolled = RolledLogs()
        self._has_truncated = False
        self._pending_deletes = PendingDirectoryDeletes(files)
        self._opened = OpenSegments.for_directory(files.open_files_max(), directories)
        self._checkpoints = OffsetCheckpoints(files, path)
        self._unopened: dict[TopicPartition, LogToLoad] = {}
        self._is_loaded = False

    @classmethod
    def open(cls, files: FileSystem, path: str, entropy: Entropy, directories: int = 1) -> LogDirectory:
        """Create the directory, one of several, if it does not exist, and lock it."""
        return cls(files, path, entropy, lock_directory(files, path), directories)

    @property
    def problems(self) -> list[str]:
        """Checkpoints that could not be read."""
        return self._checkpoints.problems

    # Startup.

    async def load(self, config_of: ConfigOf, now_ms: int, *, threads: int = 1) -> LoadState:
        """Load all logs on ``threads`` threads, recovering those that were not closed."""
        loading = self.loading
        try:
            work = await self._files.offload(lambda: self._list_logs(config_of, now_ms))
        except OSError as error:
            raise StorageError(f"cannot load {self.path}: {error}") from error
        loading.total = len(work)
        points = {entry.topic_partition: entry.context.recovery_point for entry in work}
        self._unopened = await load_logs(self._files, work, loading, threads)
        if loading.failures:
            raise loading.failures[0]
        self.unusable = dict(loading.unusable)
        for kind, log in loading.loaded:
            self._logs_of_kind(kind)[log.topic_partition] = log
        self._is_loaded = True
        if any(points[log.topic_partition] > log.log_end_offset for log in self):
            await self._lower_recovery_points()
        return loading

    async def _lower_recovery_points(self) -> None:
        """Checkpoint recovery points, as one is beyond the end of its log.

        Records appended below such a point would not be scanned after a crash. On a full disk the checkpoint
        is deleted instead: then everything is scanned.
        """
        try:
            await self.checkpoint_recovery_points()
        except StorageError:
            self._check_failure()
            try:
                await self._files.offload(self._remove_recovery_points)
            except OSError as error:
                raise self._storage_error(
                    f"cannot remove {self.path}/{RECOVERY_POINT_CHECKPOINT}", error
                ) from error

    def _remove_recovery_points(self) -> None:
        with suppress(FileNotFoundError):
            self._files.remove(f"{self.path}/{RECOVERY_POINT_CHECKPOINT}")
        self._files.sync_dir(self.path)

    def _list_logs(self, config_of: ConfigOf, now_ms: int) -> deque[LogToLoad]:
        """Read the checkpoints and list the logs to load."""
        with suppress(FileNotFoundError):
            self._files.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
            self._files.sync_dir(self.path)
            self.had_clean_shutdown = True
        recovery_points = self._checkpoints.read(RECOVERY_POINT_CHECKPOINT)
        starts = self._checkpoints.read(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._checkpoints.read(HIGH_WATERMARK_CHECKPOINT)
        self.cleaned_offsets = self._checkpoints.read(CLEANER_OFFSET_CHECKPOINT)
        listing = list_directory(self._files, self.path)
        self.unknown += listing.unknown
        self.strays += listing.strays
        for topic_partition, path in listing.deleted:
            delay_ms = config_of(topic_partition.topic).file_delete_delay_ms
            self._pending_deletes.add(path, now_ms + delay_ms)
        return deque(
            LogToLoad(
                path,
                kind,
                partition,
                config_of(partition.topic),
                self._load_context(recovery_points.get(partition, 0), starts.get(partition, 0)),
            )
            for partition, kind, path in listing.logs
        )

    def _load_context(self, recovery_point: int = 0, log_start_offset: int = 0) -> LogLoadContext:
        return LogLoadContext(
            self._files,
            self._entropy,
            self._opened,
            had_clean_shutdown=self.had_clean_shutdown,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            on_roll=self._rolled.add,
            on_truncate=self._on_truncate,
            on_failure=self.fail,
        )

    # Logs.

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    @property
    def log_count(self) -> int:
        """Number of current and future logs, including those being created."""
        return len(self._logs) + len(self._creating) + len(self.future)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    async def reopen(self, topic_partition: TopicPartition) -> bool:
        """Retry opening an unusable log; return whether it succeeded."""
        entry = self._unopened[topic_partition]
        self._check_failure()
        try:
            log = await self._files.offload(lambda: open_listed_log(entry, RecoveryResult()))
        except StorageError as error:
            self.unusable[topic_partition] = error
            return False
        except OSError as error:
            raise self._storage_error(f"cannot open the log in {entry.path}", error) from error
        self._check_failure()
        del self._unopened[topic_partition], self.unusable[topic_partition]
        self._logs_of_kind(entry.kind)[topic_partition] = log
        return True

    def _logs_of_kind(self, kind: DirectoryKind) -> dict[TopicPartition, Log]:
        return self.future if kind is DirectoryKind.FUTURE else self._logs

    async def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: TopicId | None,
        kind: DirectoryKind = DirectoryKind.CURRENT,
        start_offset: int = 0,
    ) -> Log:
        """Create an empty log, durable with its topic id when this returns.

        On failure nothing is left behind, so that the log can be created in another directory.
        """
        self._check_failure()
        if topic_partition in self._logs_of_kind(kind) or topic_partition in self._creating:
            raise StorageError(f"{self.path} already contains a log of {topic_partition}")
        unique = "" if kind is DirectoryKind.CURRENT else self._entropy.uuid().hex()
        path = f"{self.path}/{directory_name(topic_partition, kind, unique)}"
        context = self._load_context(log_start_offset=start_offset)
        self._creating.add(topic_partition)
        try:
            await self._remove_from_checkpoints(topic_partition)
            log = await self._creations.create(
                path, lambda: create_log(topic_partition, path, config, context), topic_id
            )
        except OSError as error:
            raise self._storage_error(f"cannot create {path}", error) from error
        finally:
            self._creating.discard(topic_partition)
        try:
            self._check_failure()
        except StorageError:
            with suppress(OSError):
                await self._files.offload(lambda: self._files.remove_tree(path))
            raise
        self._logs_of_kind(kind)[topic_partition] = log
        return log

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Remove a log. ``remove_due`` deletes its files after ``file.delete.delay.ms``."""
        log = self._logs[topic_partition]
        self.schedule_delete(self.mark_deleted(topic_partition), now_ms + log.config.file_delete_delay_ms)

    def delete_future(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Remove a future log. Its files are deleted without delay, as nothing reads them."""
        log = self.future[topic_partition]
        path = log.rename_for_deletion()
        del self.future[topic_partition]
        self._rolled.discard(log)
        self.schedule_delete(path, now_ms)

    def mark_deleted(self, topic_partition: TopicPartition) -> str:
        """Remove a log, renaming its directory for deletion; return the new path."""
        log = self._logs[topic_partition]
        path = log.rename_for_deletion()
        del self._logs[topic_partition]
        self._rolled.discard(log)
        return path

    def promote_future(self, topic_partition: TopicPartition) -> None:
        """Make the future log the current one. The caller renames its directory."""
        self._logs[topic_partition] = self.future.pop(topic_partition)

    def schedule_delete(self, path: str, due_ms: int) -> None:
        """Have ``remove_due`` delete a renamed directory at ``due_ms``."""
        self._pending_deletes.add(path, due_ms)

    async def remove_due(self, now_ms: int) -> int:
        """Delete the directories that are due; return their number."""
        try:
            return await self._pending_deletes.remove_due(now_ms)
        except OSError as error:
            raise self._storage_error(f"cannot remove logs in {self.path}", error) from error

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a read of this directory's files on a thread."""
        return self._files.offload_read(work)

    # Durability.

    def _contains(self, log: Log) -> bool:
        return log in (self._logs.get(log.topic_partition), self.future.get(log.topic_partition))

    def _on_truncate(self, log: Log) -> None:
        """Lower the offsets of a truncated log; a cleaning in progress ends when it sees the truncation."""
        if self._logs.get(log.topic_partition) is log:
            for offsets in (self.cleaned_offsets, self.high_watermarks):
                if offsets.get(log.topic_partition, 0) > log.log_end_offset:
                    offsets[log.topic_partition] = log.log_end_offset
            self._has_truncated = True

    async def _checkpoint_truncations(self) -> None:
        self._has_truncated = False
        try:
            await self.checkpoint_recovery_points()
            await self.checkpoint_log_start_offsets()
            await self.checkpoint_cleaned_offsets()
        except StorageError:
            self._has_truncated = True
            raise

    async def flush_rolled(self) -> int:
        """Flush the logs that rolled since the last call, to keep the recovery scan short.

        Also writes the checkpoints that truncations since the last call have lowered.
        """
        if self._has_truncated:
            await self._checkpoint_truncations()
        return await self._rolled.flush(self._contains)

    async def sync_directory(self) -> None:
        """Sync the directory, so that renames of logs are durable."""
        try:
            await self._files.offload(lambda: self._files.sync_dir(self.path))
        except OSError as error:
            failure = StorageError(f"cannot sync {self.path}: {error}")
            self.fail(failure)
            raise failure from error

    async def checkpoint_recovery_points(self) -> None:
        """Write ``recovery-point-offset-checkpoint``."""
        points = {log.topic_partition: log.recovery_point for log in (*self, *self.future.values())}
        await self._checkpoint(RECOVERY_POINT_CHECKPOINT, points)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write ``log-start-offset-checkpoint``, for logs that start inside a segment."""
        starts = {
            log.topic_partition: log.log_start_offset
            for log in (*self, *self.future.values())
            if log.log_start_offset > log.segments[0].base_offset
        }
        await self._checkpoint(LOG_START_OFFSET_CHECKPOINT, starts)

    async def checkpoint_high_watermarks(self) -> None:
        """Write ``replication-offset-checkpoint``."""
        await self._checkpoint(
            HIGH_WATERMARK_CHECKPOINT, {log.topic_partition: log.high_watermark for log in self}
        )

    async def checkpoint_cleaned_offsets(self) -> None:
        """Write ``cleaner-offset-checkpoint``."""
        entries = self.cleaned_offsets.items()
        self.cleaned_offsets = {partition: offset for partition, offset in entries if partition in self._logs}
        await self._checkpoint(CLEANER_OFFSET_CHECKPOINT, self.cleaned_offsets)

    async def _checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            await self._checkpoints.write(name, offsets, self.unusable, self._check_failure)
        except OSError as error:
            raise self._storage_error(f"cannot write {self.path}/{name}", error) from error

    async def _remove_from_checkpoints(self, topic_partition: TopicPartition) -> None:
        """Remove checkpointed offsets of a deleted log before a new log of the same name is created."""
        if self.cleaned_offsets.pop(topic_partition, None) is not None:
            await self.checkpoint_cleaned_offsets()
        if self._checkpoints.contains(RECOVERY_POINT_CHECKPOINT, topic_partition):
            await self.checkpoint_recovery_points()
        if self._checkpoints.contains(LOG_START_OFFSET_CHECKPOINT, topic_partition):
            await self.checkpoint_log_start_offsets()

    async def close(
        self, *, broker_epoch: int = -1, threads: int = 1, is_start_complete: bool = True
    ) -> None:
        """Close all logs and unlock the directory; write ``.kafka_cleanshutdown`` if all of them closed.

        After a start that failed, what it found is left unchanged. In particular an unclean directory remains
        unclean: a scan remembers the last batches of each producer, a snapshot only the last one.
        """
        try:
            failures = await close_logs(self._files, (*self, *self.future.values()), threads)
            if failures:
                raise failures[0]
            if self._is_loaded and is_start_complete:
                await self._checkpoint_all()
            if self._is_loaded and (is_start_complete or self.had_clean_shutdown):
                await self._mark_clean(broker_epoch)
        except OSError as error:
            raise self._storage_error(f"cannot close {self.path}", error) from error
        finally:
            self._lock.release()

    async def _checkpoint_all(self) -> None:
        await self.checkpoint_recovery_points()
        await self.checkpoint_log_start_offsets()
        await self.checkpoint_high_watermarks()

    async def _mark_clean(self, broker_epoch: int) -> None:
        if self.unusable:
            return  # unusable logs were not recovered
        marker = encode_clean_shutdown(broker_epoch)
        await self._files.offload(
            lambda: self._files.write_whole(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", marker)
        )

    async def space(self) -> Space:
        """Return the space of the file system. An error does not fail the directory."""
        try:
            return await self._files.offload(lambda: self._files.space(self.path))
        except OSError as error:
            raise StorageError(f"cannot read the free space of {self.path}: {error}") from error

    # Failures.

    def fail(self, failure: StorageError) -> None:
        """Mark this directory as failed. Only the first failure counts."""
        if self.failure is None:
            self.failure = failure
            self.on_failure(self)

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Release all files of a failed directory without writing: the state on disk is unknown."""
        for log in (*self, *self.future.values()):
            for segment in log.segments:
                segment.close()
        self._logs.clear()
        self.future.clear()
        self._rolled.clear()
        self._pending_deletes.clear()
        self._lock.release()

    def _storage_error(self, what: str, error: OSError) -> StorageError:
        failure = StorageError(f"{what}: {error}")
        if error.errno not in TRANSIENT_ERRORS:
            self.fail(failure)
        return failure
