"""Log cleaner: compaction of all logs of a broker.

Up to ``log.cleaner.threads`` cleanings run concurrently, each on the filthiest log that is worth cleaning;
if there is none, the next check is after ``log.cleaner.backoff.ms``. Settings are read before each check.

Cleaning of a partition can be paused; pauses are counted, and a cleaning in progress ends before the pause
starts. A partition with a corrupt log is marked uncleanable until it is deleted or the broker restarts; the
others continue.

The end of the cleaned section is checkpointed in the log directory after each cleaning. Losing it in a crash
only repeats work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from odradek.log.cleaning.cleanable_offsets import find_cleanable_offsets
from odradek.log.cleaning.cleaner import Cleaner, CleanerStats, LogCleaningAborted
from odradek.log.cleaning.log_to_clean import LogToClean, choose_filthiest, find_first_dirty
from odradek.log.cleaning.throttler import Throttler
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log import Log
from odradek.log.log_config import CleanerConfig
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

LOGS_PER_YIELD: Final = 64
"""Logs checked before control returns to the event loop."""

ABORT_CHECK_MS: Final = 100
"""Interval at which a throttled cleaning checks for an abort."""

events_log = events.logger("cleaner")


class _CleaningInProgress:
    """A cleaning in progress, and whether it must end."""

    def __init__(self, directory: LogDirectory, log: Log) -> None:
        self.directory = directory
        self.log = log
        self.truncation_count = log.truncation_count
        self.is_aborted = False
        self.ended = asyncio.Event()

    @property
    def must_end(self) -> bool:
        """True if the cleaning must end: it was aborted, or the log was truncated, removed or has failed."""
        return (
            self.is_aborted
            or self.truncation_count != self.log.truncation_count
            or not _is_usable(self.directory, self.log)
        )


def _is_usable(directory: LogDirectory, log: Log) -> bool:
    return directory.failure is None and log.failure is None and directory.get(log.topic_partition) is log


class UncleanableLogs:
    """Logs marked uncleanable, with the reasons."""

    def __init__(self) -> None:
        self._marked: dict[TopicPartition, tuple[Log, str]] = {}

    def __contains__(self, log: Log) -> bool:
        """Return whether this log is marked; a new log of the same name is not."""
        marked = self._marked.get(log.topic_partition)
        if marked is not None and marked[0] is not log:
            del self._marked[log.topic_partition]
            return False
        return marked is not None

    def mark(self, log: Log, reason: str) -> None:
        self._marked[log.topic_partition] = (log, reason)
        events_log.error("log_uncleanable", partition=log.topic_partition, reason=reason)

    def reasons(self) -> dict[TopicPartition, str]:
        return {partition: reason for partition, (_, reason) in self._marked.items()}


class CleanerWorkers:
    """Tasks that call ``clean``, which returns whether there was a log to clean."""

    def __init__(
        self, settings: Callable[[], CleanerConfig], clock: Clock, clean: Callable[[], Awaitable[bool]]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._clean = clean
        self._tasks: list[asyncio.Task[None]] = []
        self._sleeps: set[asyncio.Future[None]] = set()
        self.is_stopping = False

    def start(self) -> None:
        self._start_up_to(1)

    async def stop(self) -> None:
        self.is_stopping = True
        for sleep in self._sleeps:
            sleep.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _start_up_to(self, count: int) -> None:
        """Start workers up to ``count``. The first one stays and adjusts the number of the others."""
        self._tasks = [task for task in self._tasks if not task.done()]
        for number in range(len(self._tasks), count):
            self._tasks.append(asyncio.get_running_loop().create_task(self._run(number)))

    async def _run(self, number: int) -> None:
        while not self.is_stopping:
            config = self._settings()
            if number == 0:
                self._start_up_to(max(config.threads, 1))
            elif number >= config.threads:
                return
            may_clean = config.is_enabled and number < config.threads
            if not may_clean or not await self._try_clean():
                await self.sleep(config.backoff_ms)

    async def _try_clean(self) -> bool:
        try:
            return await self._clean()
        except Exception as error:  # noqa: BLE001 - the edge of a task
            events_log.failure("log_cleaner_failed", error)
            return False

    async def sleep(self, duration_ms: int) -> None:
        """Sleep, interrupted by ``stop``."""
        if self.is_stopping:
            return
        sleep = asyncio.ensure_future(self._clock.sleep_ms(duration_ms))
        self._sleeps.add(sleep)
        try:
            await sleep
        except asyncio.CancelledError:
            if not self.is_stopping:
                raise
        finally:
            self._sleeps.discard(sleep)


class LogCleaner:
    """Log cleaner of a broker.

    ``settings`` is called before each check, ``on_step`` with each of ``cleaner.STEPS``.
    """

    def __init__(
        self,
        directories: Iterable[LogDirectory],
        settings: Callable[[], CleanerConfig],
        clock: Clock,
        entropy: Entropy,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._directories = directories
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._on_step = on_step
        self._throttler = Throttler()
        self._in_progress: dict[TopicPartition, _CleaningInProgress] = {}
        self._pauses: Counter[TopicPartition] = Counter()
        self._uncleanable = UncleanableLogs()
        self._unwritten_checkpoints: list[LogDirectory] = []
        self._workers = CleanerWorkers(settings, clock, self.clean_filthiest_log)

    # Start and stop.

    def start(self) -> None:
        self._workers.start()

    async def stop(self) -> None:
        """Stop all workers; cleanings end after their current step."""
        await self._workers.stop()

    # Pauses.

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Pause cleaning of a partition until ``resume``; aborts and awaits a cleaning in progress."""
        self._pauses[topic_partition] += 1
        cleaning = self._in_progress.get(topic_partition)
        if cleaning is not None:
            cleaning.is_aborted = True
            await cleaning.ended.wait()

    def resume(self, topic_partition: TopicPartition) -> None:
        """Undo one ``pause``; no effect if the partition is not paused."""
        self._pauses[topic_partition] -= 1
        if self._pauses[topic_partition] <= 0:
            del self._pauses[topic_partition]

    async def abort(self, topic_partition: TopicPartition) -> None:
        """Abort a cleaning in progress; the next one may start immediately."""
        await self.pause(topic_partition)
        self.resume(topic_partition)

    # Checkpoints.

    def move_checkpoint(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """Move the checkpointed offset with a log to another directory; both checkpoints are written soon.

        The uncleanable mark is not moved: the copy was checked batch by batch.
        """
        offset = source.cleaned_offsets.pop(topic_partition, None)
        if offset is not None:
            target.cleaned_offsets[topic_partition] = offset
            self._unwritten_checkpoints += [source, target]

    async def _write_checkpoints(self) -> None:
        while self._unwritten_checkpoints:
            directory = self._unwritten_checkpoints.pop()
            if directory.failure is None:
                try:
                    await directory.checkpoint_cleaned_offsets()
                except StorageError as error:
                    events_log.warning("cleaner_checkpoint_failed", path=directory.path, reason=str(error))

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        """Uncleanable partitions with the reasons."""
        return self._uncleanable.reasons()

    # Selection.

    async def clean_filthiest_log(self) -> bool:
        """Clean the filthiest log that is worth cleaning; return whether one was cleaned."""
        await self._write_checkpoints()
        candidate = choose_filthiest([candidate async for candidate in self._candidates()])
        if candidate is None:
            return False
        (directory, log), cleanable = candidate
        if not self._may_clean(directory, log):
            return True  # another worker was faster: check again
        return await self._clean(directory, log, cleanable)

    async def _candidates(self) -> AsyncIterator[tuple[tuple[LogDirectory, Log], LogToClean, float]]:
        """Yield every cleanable log with its section and minimum dirty ratio; does not hog the event loop."""
        now_ms = self._clock.wall_ms()
        for directory in self._directories:
            for number, log in enumerate(list(directory)):
                if number % LOGS_PER_YIELD == LOGS_PER_YIELD - 1:
                    await asyncio.sleep(0)
                if self._may_clean(directory, log) and log not in self._uncleanable:
                    cleanable = await self._find_log_to_clean(directory, log, now_ms)
                    if cleanable is not None:
                        yield (directory, log), cleanable, log.config.min_cleanable_dirty_ratio

    def _may_clean(self, directory: LogDirectory, log: Log) -> bool:
        partition = log.topic_partition
        return (
            log.config.is_compacted
            and partition not in self._in_progress
            and partition not in self._pauses
            and _is_usable(directory, log)
        )

    async def _find_log_to_clean(self, directory: LogDirectory, log: Log, now_ms: int) -> LogToClean | None:
        partition = log.topic_partition
        checkpointed = directory.cleaned_offsets.get(partition)
        first_dirty = find_first_dirty(checkpointed, log.log_start_offset, log.log_end_offset)
        if first_dirty.is_reset:
            directory.cleaned_offsets[partition] = first_dirty.offset
            if "delete" not in log.config.cleanup_policy:
                events_log.warning(
                    "cleaner_checkpoint_reset", partition=partition, was=checkpointed, now=first_dirty.offset
                )
        try:
            return await find_cleanable_offsets(log, first_dirty, now_ms)
        except OSError as error:
            failure = log.disk_health.error_for(error, "read")
            events_log.warning("cleaning_failed", partition=partition, reason=str(failure))
        except BrokerError as corrupt:
            self._uncleanable.mark(log, str(corrupt))
        return None

    # Cleaning.

    async def _clean(self, directory: LogDirectory, log: Log, cleanable: LogToClean) -> bool:
        cleaning = self._in_progress[log.topic_partition] = _CleaningInProgress(directory, log)
        try:
            return await self._run_cleaning(cleaning, cleanable)
        finally:
            del self._in_progress[log.topic_partition]
            cleaning.ended.set()

    async def _run_cleaning(self, cleaning: _CleaningInProgress, cleanable: LogToClean) -> bool:
        """Run a cleaning and handle its failure; return whether it completed."""
        directory, log = cleaning.directory, cleaning.log
        partition, began_ms = log.topic_partition, self._clock.monotonic_ms()
        try:
            # Recovery of a topic that is no longer compacted takes gaps for data loss: start after them.
            await directory.checkpoint_recovery_points()
            cleaned = await Cleaner(
                log,
                cleanable,
                self._settings(),
                self._entropy.token(16),
                self._clock.wall_ms(),
                partial(self._throttle_io, cleaning),
                self._on_step,
            ).run(self._clock.monotonic_ms)
            if cleaning.must_end:
                raise LogCleaningAborted("the log has changed")
            directory.cleaned_offsets[partition] = cleaned.end_offset
            await directory.checkpoint_cleaned_offsets()
        except (LogCleaningAborted, FileNotFoundError) as ended:
            # Files disappear when the log is deleted or truncated, or when retention deletes segments.
            events_log.info("cleaning_aborted", partition=partition, reason=str(ended))
            return False
        except (OSError, BrokerError, StorageError) as error:
            self._note_failure(cleaning, error)
            return False
        except Exception as error:  # noqa: BLE001 - cleaning of the other logs must go on
            events_log.failure("cleaning_crashed", error, partition=partition)
            self._uncleanable.mark(log, repr(error))
            return False
        self._on_step("checkpointed")
        self._log_stats(log, cleanable, cleaned, self._clock.monotonic_ms() - began_ms)
        return True

    def _note_failure(self, cleaning: _CleaningInProgress, error: Exception) -> None:
        """Retry later on a full disk, fail the directory on a failed disk, mark a corrupt log uncleanable."""
        log = cleaning.log
        if isinstance(error, OSError):
            error = log.disk_health.error_for(error, "compact")
        # A checkpoint reports a full disk as a StorageError that does not fail the directory.
        is_full = isinstance(error, StorageError) or (
            isinstance(error, BrokerError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
        )
        if is_full or cleaning.must_end:
            events_log.warning("cleaning_failed", partition=log.topic_partition, reason=str(error))
        else:
            self._uncleanable.mark(log, str(error))

    async def _throttle_io(self, cleaning: _CleaningInProgress, moved_bytes: int) -> None:
        """Wait as ``log.cleaner.io.max.bytes.per.second`` requires, unless the cleaning must end."""
        rate = self._settings().bytes_per_second
        wait_ms = self._throttler.spend(moved_bytes, rate, self._clock.monotonic_ms())
        while not (self._workers.is_stopping or cleaning.must_end):
            if wait_ms <= 0:
                return
            await self._workers.sleep(min(wait_ms, ABORT_CHECK_MS))
            wait_ms -= ABORT_CHECK_MS
        raise LogCleaningAborted("aborted, or the log has changed")

    def _log_stats(self, log: Log, cleanable: LogToClean, cleaned: CleanerStats, duration_ms: int) -> None:
        events_log.info(
            "log_cleaned",
            partition=log.topic_partition,
            first_offset=cleanable.first_dirty_offset,
            end_offset=cleaned.end_offset,
            dirty_bytes=cleanable.cleanable_bytes,
            bytes_before=cleaned.bytes_before,
            bytes_after=cleaned.bytes_after,
            records_before=cleaned.records_before,
            records_after=cleaned.records_after,
            map_full=cleaned.is_map_full,
            seconds=duration_ms / 1000,
        )
