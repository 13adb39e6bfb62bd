"""The logs of one data directory.

One broker at a time: ``.lock`` says so. ``.kafka_cleanshutdown`` is written after a stop that brought
everything to the disk, and removed before anything else happens at the next start, so that it is true
whenever it is there. Offsets that logs cannot know from their own files are checkpointed here: how far each
is flushed, where each starts, how far each was committed.

Names in the directory that are no log's are left alone and listed in ``unknown``.

A directory fails as a whole and for good: ``failure`` says why, ``on_failure`` is told once, and whoever owns
the directory lets go of it with ``abandon``. A log that cannot be opened while others can is ``unusable``
alone: what was checkpointed of it is kept, and the stop is not called clean, so that it is read again in full
by whoever can open it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

from odradek.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    encode_clean_shutdown,
    encode_offsets,
    encode_partition_metadata,
    read_offsets,
)
from odradek.log.disk_health import SINGLE_LOG_ERRORS, TRANSIENT_ERRORS
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery.load_progress import LoadState
from odradek.log.recovery.log_loader import LogLoadContext, RecoveryResult, create_log, open_log
from odradek.log.segments.log_segment import OpenSegments
from odradek.log.segments.segment_format import DirectoryKind, directory_name, parse_directory_name
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileLock, FileSystem, Space

T = TypeVar("T")

SYNCS_AT_ONCE: Final = 8
"""Logs that wait for the disk together: a file system makes one journal entry of several syncs."""

ConfigOf = Callable[[str], LogConfig]
"""The settings that hold for a topic."""


class _Found(NamedTuple):
    """A log that is to be opened."""

    path: str
    kind: DirectoryKind
    topic_partition: TopicPartition
    config: LogConfig
    how: LogLoadContext


class DirectoryInUse(StorageError):
    """Another broker holds the directory."""


class LogDirectory:
    """Made by ``open``. One owner calls it."""

    def __init__(self, files: FileSystem, path: str, entropy: Entropy, lock: FileLock) -> None:
        self.path = path
        self.had_clean_shutdown = False
        self.failure: StorageError | None = None
        self.on_failure: Callable[[LogDirectory], None] = lambda _: None
        self.future: dict[TopicPartition, Log] = {}
        self.strays: list[str] = []
        self.unknown: list[str] = []
        self.problems: list[str] = []
        self.loading = LoadState()
        self.unusable: dict[TopicPartition, StorageError] = {}
        """Why logs that are here cannot be opened."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As last checkpointed before this start."""
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """How far each log is compacted; kept by the cleaner."""
        self._files = files
        self._entropy = entropy
        self._lock = lock
        self._logs: dict[TopicPartition, Log] = {}
        self._creating: set[TopicPartition] = set()
        self._rolled: dict[Log, None] = {}
        self._going: list[tuple[int, str]] = []
        self._opened = OpenSegments()
        self._checkpointing = asyncio.Lock()
        self._checkpointed: dict[str, Collection[TopicPartition]] = {}
        self._read: dict[str, Mapping[TopicPartition, int]] = {}
        self._unopened: dict[TopicPartition, _Found] = {}
        self._is_loaded = False

    @classmethod
    def open(cls, files: FileSystem, path: str, entropy: Entropy) -> LogDirectory:
        """Make the directory if need be and lock it."""
        try:
            _make_durably(files, path)
            lock = files.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise DirectoryInUse(f"{path} is in use by another broker: its {LOCK_FILE} is locked") from error
        except OSError as error:
            raise unusable_directory(path, error) from error
        return cls(files, path, entropy, lock)

    # Start.

    async def load(self, config_of: ConfigOf, now_ms: int, *, threads: int = 1) -> LoadState:
        """Open all logs, ``threads`` at a time, and mend those that were not closed."""
        loading = self.loading
        try:
            work = await self._files.offload(lambda: self._prepare(config_of, now_ms))
        except OSError as error:
            raise StorageError(f"cannot load {self.path}: {error}") from error
        loading.total = len(work)
        points = {found.topic_partition: found.how.recovery_point for found in work}
        await self._run(threads, lambda: self._load_some(work))
        if loading.failures:
            raise loading.failures[0]
        self.unusable = dict(loading.unusable)
        for kind, log in loading.loaded:
            self._pool(kind)[log.topic_partition] = log
        self._is_loaded = True
        if any(points[log.topic_partition] > log.log_end_offset for log in self):
            await self._lower_recovery_points()
        return loading

    async def _lower_recovery_points(self) -> None:
        """Let no recovery point on file lie behind the end of its log.

        What comes to stand below such a point must be scanned, should the process end before a flush. Where
        there is no room for a checkpoint, none at all serves too: everything is scanned then.
        """
        try:
            await self.checkpoint_recovery_points()
        except StorageError:
            self._require_good()
            await self._files.offload(self._remove_recovery_points)

    def _remove_recovery_points(self) -> None:
        with suppress(FileNotFoundError):
            self._files.remove(f"{self.path}/{RECOVERY_POINT_CHECKPOINT}")
        self._files.sync_dir(self.path)

    async def _run(self, threads: int, work: Callable[[], None]) -> None:
        """Run the same work on some threads; it must not raise."""
        for run in [self._files.offload(work) for _ in range(threads)]:
            await run

    def _prepare(self, config_of: ConfigOf, now_ms: int) -> deque[_Found]:
        """Read what concerns all logs, and list them."""
        with suppress(FileNotFoundError):
            self._files.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
            self._files.sync_dir(self.path)
            self.had_clean_shutdown = True
        recovery_points = self._read_offsets(RECOVERY_POINT_CHECKPOINT)
        starts = self._read_offsets(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._read_offsets(HIGH_WATERMARK_CHECKPOINT)
        self.cleaned_offsets = self._read_offsets(CLEANER_OFFSET_CHECKPOINT)
        work: deque[_Found] = deque()
        for name in self._files.list_names(self.path):
            parsed, path = parse_directory_name(name), f"{self.path}/{name}"
            if parsed is None or not self._files.is_directory(path):
                self.unknown.append(name)
            elif parsed.kind is DirectoryKind.DELETE:
                delay_ms = config_of(parsed.topic_partition.topic).file_delete_delay_ms
                self._going.append((now_ms + delay_ms, path))
            elif parsed.kind is DirectoryKind.STRAY:
                self.strays.append(path)
            else:
                topic_partition = parsed.topic_partition
                how = self._opening(recovery_points.get(topic_partition, 0), starts.get(topic_partition, 0))
                work.append(_Found(path, parsed.kind, topic_partition, config_of(topic_partition.topic), how))
        return work

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint that cannot be read is as good as none: more is scanned, less is known."""
        try:
            found = read_offsets(self._files, f"{self.path}/{name}")
            self._checkpointed[name] = self._read[name] = found
            return found
        except StorageError as error:
            self.problems.append(str(error))
            return {}

    def _opening(self, recovery_point: int = 0, log_start_offset: int = 0) -> LogLoadContext:
        return LogLoadContext(
            self._files,
            self._entropy,
            self._opened,
            had_clean_shutdown=self.had_clean_shutdown,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            on_roll=self._note_roll,
            on_failure=self.fail,
        )

    def _load_some(self, work: deque[_Found]) -> None:
        """Open logs until none is left. Several threads do this at once."""
        loading = self.loading
        while True:
            try:
                found = work.popleft()
            except IndexError:
                return
            recovered = RecoveryResult()
            loading.begun.append(recovered)
            try:
                log = _open(found, recovered)
            except OSError as error:
                loading.failures.append(StorageError(f"cannot open the log in {found.path}: {error}"))
                continue
            except StorageError as error:
                self._unopened[found.topic_partition] = found
                loading.unusable.append((found.topic_partition, error))
                continue
            if recovered.scanned_segments or recovered.problem is not None:
                loading.recovered.append((found.topic_partition, recovered))
            loading.loaded.append((found.kind, log))

    # Logs.

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    @property
    def log_count(self) -> int:
        """Logs that are here or on their way."""
        return len(self._logs) + len(self._creating) + len(self.future)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    async def reopen(self, topic_partition: TopicPartition) -> bool:
        """Try again to open a log that could not be; give whether it is in use now."""
        found = self._unopened[topic_partition]
        self._require_good()
        try:
            log = await self._files.offload(lambda: _open(found, RecoveryResult()))
        except StorageError as error:
            self.unusable[topic_partition] = error
            return False
        except OSError as error:
            raise self._refusal(f"cannot open the log in {found.path}", error) from error
        self._require_good()
        del self._unopened[topic_partition], self.unusable[topic_partition]
        self._pool(found.kind)[topic_partition] = log
        return True

    def _pool(self, kind: DirectoryKind) -> dict[TopicPartition, Log]:
        return self.future if kind is DirectoryKind.FUTURE else self._logs

    async def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: TopicId | None,
        kind: DirectoryKind = DirectoryKind.CURRENT,
        start_offset: int = 0,
    ) -> Log:
        """Begin an empty log. It is there after a crash, with its topic's id, once this returns.

        One that cannot be begun leaves nothing, so that another directory may have it.
        """
        self._require_good()
        if topic_partition in self._pool(kind) or topic_partition in self._creating:
            raise StorageError(f"{self.path} has a log of {topic_partition} already")
        unique = "" if kind is DirectoryKind.CURRENT else self._entropy.uuid().hex()
        path = f"{self.path}/{directory_name(topic_partition, kind, unique)}"
        how = self._opening(log_start_offset=start_offset)
        self._creating.add(topic_partition)
        try:
            await self._forget_checkpoints_of(topic_partition)
            log = await self._files.offload(
                lambda: self._create(topic_partition, path, config, topic_id, how)
            )
        except OSError as error:
            raise self._refusal(f"cannot create {path}", error) from error
        finally:
            self._creating.discard(topic_partition)
        try:
            self._require_good()
        except StorageError:
            with suppress(OSError):
                await self._files.offload(lambda: self._files.remove_tree(path))
            raise
        self._pool(kind)[topic_partition] = log
        return log

    def _create(
        self,
        topic_partition: TopicPartition,
        path: str,
        config: LogConfig,
        topic_id: TopicId | None,
        how: LogLoadContext,
    ) -> Log:
        try:
            log = create_log(topic_partition, path, config, how)
            if topic_id is not None:
                self._files.write_whole(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))
            self._files.sync_dir(self.path)
        except OSError:
            with suppress(OSError):
                self._files.remove_tree(path)
            raise
        return log

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Take a log out of use. Its files are removed by ``remove_due`` after ``file.delete.delay.ms``."""
        log = self._logs[topic_partition]
        self.schedule_delete(self.mark_deleted(topic_partition), now_ms + log.config.file_delete_delay_ms)

    def delete_future(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Give up a log that was on its way here. Its files are removed soon; nobody reads them."""
        log = self.future[topic_partition]
        path = log.rename_for_deletion()
        del self.future[topic_partition]
        self._rolled.pop(log, None)
        self.schedule_delete(path, now_ms)

    def mark_deleted(self, topic_partition: TopicPartition) -> str:
        """Mark a log as going, and know it no more; give the path its files have now."""
        log = self._logs[topic_partition]
        path = log.rename_for_deletion()
        del self._logs[topic_partition]
        self._rolled.pop(log, None)
        return path

    def promote_future(self, topic_partition: TopicPartition) -> None:
        """Let the log that was on its way here be the partition's. Its directory is renamed by the caller."""
        self._logs[topic_partition] = self.future.pop(topic_partition)

    def schedule_delete(self, path: str, due_ms: int) -> None:
        """Let ``remove_due`` remove a directory that is marked as going."""
        self._going.append((due_ms, path))

    async def remove_due(self, now_ms: int) -> int:
        """Remove the directories whose time has come; give their number."""
        due = [path for due_ms, path in self._going if due_ms <= now_ms]
        self._going = [(due_ms, path) for due_ms, path in self._going if due_ms > now_ms]
        for path in due:
            try:
                await self._files.offload(partial(self._remove, path))
            except OSError as error:
                self._going.append((now_ms, path))
                raise self._refusal(f"cannot remove {path}", error) from error
        return len(due)

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._files.remove_tree(path)

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a read of this directory's files away from the event loop."""
        return self._files.offload_read(work)

    # Durability.

    def _holds(self, log: Log) -> bool:
        return log in (self._logs.get(log.topic_partition), self.future.get(log.topic_partition))

    def _note_roll(self, log: Log) -> None:
        self._rolled[log] = None

    async def flush_rolled(self) -> int:
        """Flush the logs that sealed a segment since the last call, so that a crash leaves little to scan."""
        rolled, self._rolled = list(self._rolled), {}
        limit = asyncio.Semaphore(SYNCS_AT_ONCE)
        failures = []

        async def one(log: Log) -> None:
            async with limit:
                try:
                    await log.flush()
                except StorageError as error:
                    failures.append(error)
                    if log.failure is None and self._holds(log):
                        self._rolled[log] = None

        await asyncio.gather(*(one(log) for log in rolled))
        if failures:
            raise failures[0]
        return len(rolled)

    async def sync_directory(self) -> None:
        """Make the names of the logs' directories durable."""
        try:
            await self._files.offload(lambda: self._files.sync_dir(self.path))
        except OSError as error:
            failure = StorageError(f"cannot sync {self.path}: {error}")
            self.fail(failure)
            raise failure from error

    async def checkpoint_recovery_points(self) -> None:
        """Write down how far each log is flushed."""
        points = {log.topic_partition: log.recovery_point for log in (*self, *self.future.values())}
        await self._checkpoint(RECOVERY_POINT_CHECKPOINT, points)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write down where logs start that do not start with a segment."""
        starts = {
            log.topic_partition: log.log_start_offset
            for log in (*self, *self.future.values())
            if log.log_start_offset > log.segments[0].base_offset
        }
        await self._checkpoint(LOG_START_OFFSET_CHECKPOINT, starts)

    async def checkpoint_high_watermarks(self) -> None:
        """Write down how far each log is committed."""
        await self._checkpoint(
            HIGH_WATERMARK_CHECKPOINT, {log.topic_partition: log.high_watermark for log in self}
        )

    async def checkpoint_cleaned_offsets(self) -> None:
        """Write down how far each log is compacted."""
        known = self.cleaned_offsets.items()
        self.cleaned_offsets = {partition: offset for partition, offset in known if partition in self._logs}
        await self._checkpoint(CLEANER_OFFSET_CHECKPOINT, self.cleaned_offsets)

    async def _checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        before = self._read.get(name, {})
        offsets = {one: before[one] for one in self.unusable if one in before} | dict(offsets)
        data = encode_offsets(offsets)
        try:
            async with self._checkpointing:
                self._require_good()
                await self._files.offload(lambda: self._files.write_whole(f"{self.path}/{name}", data))
        except OSError as error:
            raise self._refusal(f"cannot write {self.path}/{name}", error) from error
        self._checkpointed[name] = offsets.keys()

    async def _forget_checkpoints_of(self, topic_partition: TopicPartition) -> None:
        """Offsets of a log that was here before must not be taken for those of the next."""
        if self.cleaned_offsets.pop(topic_partition, None) is not None:
            await self.checkpoint_cleaned_offsets()
        if topic_partition in self._checkpointed.get(RECOVERY_POINT_CHECKPOINT, ()):
            await self.checkpoint_recovery_points()
        if topic_partition in self._checkpointed.get(LOG_START_OFFSET_CHECKPOINT, ()):
            await self.checkpoint_log_start_offsets()

    async def close(self, *, broker_epoch: int = -1, threads: int = 1) -> None:
        """Close all logs and unlock the directory; mark the stop as clean if all of it was.

        A directory that was never loaded, because the start failed before, is left as it was found.
        """
        try:
            failures = await self._close_logs(threads)
            if failures:
                raise failures[0]
            if self._is_loaded:
                await self._close_clean(broker_epoch)
        except OSError as error:
            raise self._refusal(f"cannot close {self.path}", error) from error
        finally:
            self._lock.release()

    async def _close_clean(self, broker_epoch: int) -> None:
        await self.checkpoint_recovery_points()
        await self.checkpoint_log_start_offsets()
        await self.checkpoint_high_watermarks()
        if self.unusable:
            return  # nobody has looked at all that the mark would vouch for
        marker = encode_clean_shutdown(broker_epoch)
        await self._files.offload(
            lambda: self._files.write_whole(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", marker)
        )

    async def _close_logs(self, threads: int) -> list[StorageError]:
        failures: list[StorageError] = []
        work: deque[tuple[Log, Callable[[], None]]] = deque()
        for log in (*self, *self.future.values()):
            try:
                plan = log.plan_close()
            except StorageError as error:
                failures.append(error)
            else:
                if plan is not None:
                    work.append((log, plan))

        def run() -> None:
            while work:
                with suppress(IndexError):
                    log, plan = work.popleft()
                    try:
                        plan()
                    except OSError as error:
                        failures.append(StorageError(f"cannot close {log.directory}: {error}"))

        await self._run(min(max(threads, SYNCS_AT_ONCE), len(work)), run)
        for log in (*self, *self.future.values()):
            log.finish_close()
        return failures

    async def space(self) -> Space:
        """Of the disk this is on. An error says nothing about the logs."""
        try:
            return await self._files.offload(lambda: self._files.space(self.path))
        except OSError as error:
            raise StorageError(f"cannot look at {self.path}: {error}") from error

    # Failures.

    def fail(self, failure: StorageError) -> None:
        """DiskHealth this directory no more. The first failure is the one that counts."""
        if self.failure is None:
            self.failure = failure
            self.on_failure(self)

    def _require_good(self) -> None:
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Hold nothing of a failed directory any longer. Nothing more is written: its state is not known."""
        for log in (*self, *self.future.values()):
            for segment in log.segments:
                segment.close()
        self._logs.clear()
        self.future.clear()
        self._rolled.clear()
        self._going.clear()
        self._lock.release()

    def _refusal(self, what: str, error: OSError) -> StorageError:
        failure = StorageError(f"{what}: {error}")
        if error.errno not in TRANSIENT_ERRORS:
            self.fail(failure)
        return failure


def unusable_directory(path: str, error: OSError) -> StorageError:
    """Return the error of a path that cannot be a data directory."""
    # The text of an OSError would name the path, or one above it, a second time.
    reason = error.strerror or str(error)
    if error.filename is not None and str(error.filename) != path:
        reason += f" ({error.filename})"
    return StorageError(f"{path} cannot be used as a data directory: {reason}")


def _open(found: _Found, recovered: RecoveryResult) -> Log:
    """Open a log. ``StorageError`` says why this one cannot be; ``OSError`` is the disk's. Waits."""
    try:
        return open_log(found.topic_partition, found.path, found.config, found.how, recovered)
    except OSError as error:
        if error.errno in SINGLE_LOG_ERRORS:
            raise StorageError(f"cannot open the log in {found.path}: {error}") from error
        raise
    except (StorageError, BrokerError) as error:
        raise StorageError(f"cannot open the log in {found.path}: {error}") from error


def _make_durably(files: FileSystem, path: str) -> None:
    """Make a directory that a loss of power does not take back, with all that will be written into it."""
    above = path
    missing = []
    while not files.exists(above):
        missing.append(above)
        above = above.rpartition("/")[0] or "/"
    files.make_directories(path)
    for made in reversed(missing):
        with suppress(PermissionError):  # what may be entered only cannot be opened to be synced
            files.sync_dir(made.rpartition("/")[0] or "/")
