"""Compaction of all logs of a broker: which is next, who may hold it up, how far each has come.

Up to ``log.cleaner.threads`` rounds run at once, each over another log, always the dirtiest that is worth it;
when there is none, the next look is ``log.cleaner.backoff.ms`` later. Settings are asked anew each time.

A partition that is to be left alone is paused; pauses are counted, and a round under way ends before a pause
begins. One whose log cannot be compacted, because of damage, is put aside with the reason until it is deleted
or the broker is started again; the others go on.

How far a log is compacted is written down in its data directory after each round. It is a hint about work
done: a crash that loses it costs a repetition.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Final

from odradek.log.cleaning.cleanable_offsets import find_cleanable_offsets
from odradek.log.cleaning.cleaner import Cleaner, CleanerStats, LogCleaningAborted
from odradek.log.cleaning.log_to_clean import LogToClean, choose, find_first_dirty
from odradek.log.cleaning.throttler import Throttler
from odradek.log.log import Log
from odradek.log.log_config import CleanerConfig
from odradek.log.log_directory import LogDirectory
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

LOGS_A_TURN: Final = 64
"""Logs looked at before others on the loop have their turn."""

NAP_MS_MAX: Final = 100
"""A round that waits for its turn looks this often whether it is to end."""

events_log = events.logger("cleaner")


class _UnderWay:
    """A round over a log, and whether somebody wants it to end."""

    def __init__(self, directory: LogDirectory, log: Log) -> None:
        self.directory = directory
        self.log = log
        self.cuts = log.cuts
        self.is_aborted = False
        self.ended = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether it is to end: it was asked to, or the log is not what it was."""
        return self.is_aborted or self.cuts != self.log.cuts or not _is_sound(self.directory, self.log)


def _is_sound(directory: LogDirectory, log: Log) -> bool:
    return directory.failure is None and log.failure is None and directory.get(log.topic_partition) is log


class LogCleaner:
    """``settings`` are asked for at each look. ``on_step`` is told of each of ``cleaning_round.STEPS``."""

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
        self._throttle = Throttler()
        self._under_way: dict[TopicPartition, _UnderWay] = {}
        self._pauses: Counter[TopicPartition] = Counter()
        self._uncleanable: dict[TopicPartition, tuple[Log, str]] = {}
        self._unwritten: list[LogDirectory] = []
        self._workers: list[asyncio.Task[None]] = []
        self._naps: set[asyncio.Future[None]] = set()
        self._is_stopping = False

    # Start and stop.

    def start(self) -> None:
        self._employ(1)

    async def stop(self) -> None:
        """End all rounds where they can be ended; what is on its way to the disk gets there first."""
        self._is_stopping = True
        for nap in self._naps:
            nap.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers.clear()

    def _employ(self, count: int) -> None:
        """Have so many workers. The first stays for good and looks after the number of the others."""
        self._workers = [worker for worker in self._workers if not worker.done()]
        for number in range(len(self._workers), count):
            self._workers.append(asyncio.get_running_loop().create_task(self._work(number)))

    async def _work(self, number: int) -> None:
        while not self._is_stopping:
            config = self._settings()
            if number == 0:
                self._employ(max(config.threads, 1))
            elif number >= config.threads:
                return
            may_clean = config.is_enabled and number < config.threads
            if not may_clean or not await self._try_to_clean():
                await self._nap(config.backoff_ms)

    async def _try_to_clean(self) -> bool:
        try:
            return await self.clean_filthiest_log()
        except Exception as broken:  # noqa: BLE001 - the edge of a task
            events_log.failure("cleaner_broken", broken)
            return False

    async def _nap(self, duration_ms: int) -> None:
        """Wait, but not while stopping."""
        if self._is_stopping:
            return
        nap = asyncio.ensure_future(self._clock.sleep_ms(duration_ms))
        self._naps.add(nap)
        try:
            await nap
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
        finally:
            self._naps.discard(nap)

    # Pauses.

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Leave a partition alone until ``resume``; a round under way is ended before this returns."""
        self._pauses[topic_partition] += 1
        under_way = self._under_way.get(topic_partition)
        if under_way is not None:
            under_way.is_aborted = True
            await under_way.ended.wait()

    def resume(self, topic_partition: TopicPartition) -> None:
        """Undo one pause; one that is not paused stays so."""
        self._pauses[topic_partition] -= 1
        if self._pauses[topic_partition] <= 0:
            del self._pauses[topic_partition]

    async def abort(self, topic_partition: TopicPartition) -> None:
        """End a round under way; the next may begin at once."""
        await self.pause(topic_partition)
        self.resume(topic_partition)

    # What is written down.

    async def maybe_truncate_checkpoint(self, topic_partition: TopicPartition, offset: int) -> None:
        """A log was truncated: what comes to stand behind ``offset`` was not compacted yet.

        Whoever truncates a log pauses it before: a segment that is about to take its place may hold more.
        """
        for directory in self._directories:
            if directory.cleaned_offsets.get(topic_partition, 0) > offset:
                directory.cleaned_offsets[topic_partition] = offset
                await directory.checkpoint_cleaned_offsets()

    def move_checkpoint(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """A log is in another directory now: what is known of it goes along, and is written down soon.

        A log that was put aside is not: its copy was checked batch by batch.
        """
        offset = source.cleaned_offsets.pop(topic_partition, None)
        if offset is not None:
            target.cleaned_offsets[topic_partition] = offset
            self._unwritten += [source, target]

    async def _write_down(self) -> None:
        while self._unwritten:
            directory = self._unwritten.pop()
            if directory.failure is None:
                try:
                    await directory.checkpoint_cleaned_offsets()
                except StorageError as failed:
                    events_log.warning("cleaned_offsets_not_written", path=directory.path, reason=str(failed))

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        """Partitions that were put aside, and why."""
        return {partition: reason for partition, (_, reason) in self._uncleanable.items()}

    # Choice.

    async def clean_filthiest_log(self) -> bool:
        """Compact the dirtiest log that is worth it; gives whether there was one that came to its end."""
        await self._write_down()
        found = choose([candidate async for candidate in self._candidates()])
        if found is None:
            return False
        (directory, log), cleanable = found
        if not self._may_clean(directory, log):
            return True  # another worker was faster: look again
        return await self._clean(directory, log, cleanable)

    async def _candidates(self) -> AsyncIterator[tuple[tuple[LogDirectory, Log], LogToClean, float]]:
        """Every log that may be compacted, and what a round would do; others on the loop run in between."""
        now_ms = self._clock.wall_ms()
        for directory in self._directories:
            for number, log in enumerate(list(directory)):
                if number % LOGS_A_TURN == LOGS_A_TURN - 1:
                    await asyncio.sleep(0)
                if self._may_clean(directory, log) and not self._is_put_aside(log):
                    cleanable = await self._look_at(directory, log, now_ms)
                    if cleanable is not None:
                        yield (directory, log), cleanable, log.config.min_cleanable_dirty_ratio

    def _may_clean(self, directory: LogDirectory, log: Log) -> bool:
        partition = log.topic_partition
        return (
            log.config.is_compacted
            and partition not in self._under_way
            and partition not in self._pauses
            and _is_sound(directory, log)
        )

    def _is_put_aside(self, log: Log) -> bool:
        """Whether this very log was; one that took the name of a deleted one was not."""
        put_aside = self._uncleanable.get(log.topic_partition)
        if put_aside is not None and put_aside[0] is not log:
            del self._uncleanable[log.topic_partition]
            return False
        return put_aside is not None

    async def _look_at(self, directory: LogDirectory, log: Log, now_ms: int) -> LogToClean | None:
        partition = log.topic_partition
        checkpointed = directory.cleaned_offsets.get(partition)
        first_dirty = find_first_dirty(checkpointed, log.log_start_offset, log.log_end_offset)
        if first_dirty.is_reset:
            directory.cleaned_offsets[partition] = first_dirty.offset
            if "delete" not in log.config.cleanup_policy:
                events_log.warning(
                    "cleaned_offset_reset", partition=partition, was=checkpointed, now=first_dirty.offset
                )
        try:
            return await find_cleanable_offsets(log, first_dirty, now_ms)
        except OSError as error:
            refusal = log.storage_error(error, "look through")
            events_log.warning("cleaning_failed", partition=partition, reason=str(refusal))
        except BrokerError as damaged:
            self._put_aside(log, str(damaged))
        return None

    def _put_aside(self, log: Log, reason: str) -> None:
        self._uncleanable[log.topic_partition] = (log, reason)
        events_log.error("log_uncleanable", partition=log.topic_partition, reason=reason)

    # Rounds.

    async def _clean(self, directory: LogDirectory, log: Log, cleanable: LogToClean) -> bool:
        under_way = self._under_way[log.topic_partition] = _UnderWay(directory, log)
        try:
            return await self._run(under_way, cleanable)
        finally:
            del self._under_way[log.topic_partition]
            under_way.ended.set()

    async def _run(self, under_way: _UnderWay, cleanable: LogToClean) -> bool:
        """A round, and what is to be done if it fails; gives whether it came to its end."""
        directory, log = under_way.directory, under_way.log
        partition, began_ms = log.topic_partition, self._clock.monotonic_ms()
        try:
            # Recovery takes holes for damage where a topic is no longer compacted: let it begin behind them.
            await directory.checkpoint_recovery_points()
            cleaned = await Cleaner(
                log,
                cleanable,
                self._settings(),
                self._entropy.token(16),
                self._clock.wall_ms(),
                partial(self._pace, under_way),
                self._on_step,
            ).run(self._clock.monotonic_ms)
            directory.cleaned_offsets[partition] = cleaned.end_offset
            await directory.checkpoint_cleaned_offsets()
        except (LogCleaningAborted, FileNotFoundError) as ended:
            # Files go when a log is deleted, or cut, or loses segments to retention.
            events_log.info("cleaning_aborted", partition=partition, reason=str(ended))
            return False
        except (OSError, BrokerError, StorageError) as failed:
            self._note_failure(under_way, failed)
            return False
        except Exception as broken:  # noqa: BLE001 - whatever it is, the other logs are to be compacted
            events_log.failure("cleaning_broken", broken, partition=partition)
            self._put_aside(log, repr(broken))
            return False
        self._on_step("checkpointed")
        self._tell(log, cleanable, cleaned, self._clock.monotonic_ms() - began_ms)
        return True

    def _note_failure(self, under_way: _UnderWay, failed: Exception) -> None:
        """A full disk is tried again later; a failed one is the end of its directory; damage stays."""
        log = under_way.log
        if isinstance(failed, OSError):
            failed = log.storage_error(failed, "compact")
        # A checkpoint tells of a full disk as a StorageError that is not the end of the directory.
        is_full = isinstance(failed, StorageError) or (
            isinstance(failed, BrokerError) and failed.code is ErrorCode.KAFKA_STORAGE_ERROR
        )
        if is_full or under_way.is_over:
            events_log.warning("cleaning_failed", partition=log.topic_partition, reason=str(failed))
        else:
            self._put_aside(log, str(failed))

    async def _pace(self, under_way: _UnderWay, moved_bytes: int) -> None:
        """Wait as long as ``log.cleaner.io.max.bytes.per.second`` asks for, unless the round is to end."""
        rate = self._settings().bytes_per_second
        wait_ms = self._throttle.spend(moved_bytes, rate, self._clock.monotonic_ms())
        while not (self._is_stopping or under_way.is_over):
            if wait_ms <= 0:
                return
            await self._nap(min(wait_ms, NAP_MS_MAX))
            wait_ms -= NAP_MS_MAX
        raise LogCleaningAborted("it was asked to end, or the log has changed")

    def _tell(self, log: Log, cleanable: LogToClean, cleaned: CleanerStats, took_ms: int) -> None:
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
            seconds=took_ms / 1000,
        )
