"""A log in a data directory in memory, compared with its model step by step.

A step is a name and three numbers, so that a run is a plain list: Hypothesis generates and shrinks such
lists, ``python -m tests.faults.run --only model`` generates them from a seed. After each step the log must
equal the model; a crash or a power failure, between steps or before any single file operation, must keep
everything flushed.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from tests.faults.log_model.comparison import as_in_one_of, as_sifted, compare, read_batches
from tests.faults.log_model.history import History, Written, WrittenBatch, latest_by_key, records_of
from tests.faults.storage.watched_files import WatchedFiles

from odradek.log.cleaning.log_cleaner import LogCleaner
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log import Log
from odradek.log.log_config import CleanerConfig, LogConfig
from odradek.log.old_segments import delete_old_segments, delete_pending_segments
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import Compression
from odradek.records.batch import BatchBuilder
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem

ORDERS = TopicPartition("orders", 0)
KEYS = 4
NUMBER_MAX = 200
"""Maximum of the numbers of a step."""
STARTS_MAX = 6
"""Attempts after which armed errors and crashes are used up."""
NAMES = (".log", ".index", ".timeindex", "checkpoint.tmp", "", ".cleaned", ".snapshot", ".txnindex")
CODECS = (Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4)
CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=100,
    retention_ms=-1,
    file_delete_delay_ms=20,
    segment_ms=10**9,
    delete_retention_ms=50,
    min_cleanable_dirty_ratio=0.01,
)


class Step(NamedTuple):
    """A step and its three parameters, whose meaning depends on the step."""

    kind: str
    first: int = 0
    second: int = 0
    third: int = 0


class ProcessEnded(BaseException):
    """Raised to simulate a crash; must not be caught by the code under test."""


class Hazard(NamedTuple):
    """Possible results of an interrupted step."""

    batches: list[WrittenBatch]
    end_min: int
    start_max: int
    may_be_empty: bool = False
    is_compacting: bool = False


class StandingClock:
    """A clock that does not advance during a step."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def wall_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError(f"a wait of {duration_ms} ms where nothing is throttled")


class ModelledLog:
    """A log and its model. Steps are named like the methods that end in ``_step``."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.memory = MemoryFileSystem(lambda: self.now_ms)
        self.memory.make_directories("/data")
        self.memory.sync_dir("/")
        self.files = WatchedFiles(self.memory, self._operation)
        self.entropy = SeededEntropy(0)
        self.model = History()
        self.config = CONFIG
        self.leader_epoch = 0
        self.producers = 0
        self.was_compacted = False
        self.ends = 0
        """Number of crashes."""
        self.refusals = 0
        self._operations_left = -1
        self._is_power_lost = False
        self._crash_seed = 0
        self._is_over = False
        self._hazard = Hazard([], 0, 0)
        self.directory: LogDirectory
        self.log: Log

    # Environment.

    def _operation(self, operation: str, path: str) -> None:
        del operation, path
        if self._operations_left == 0 or self._is_over:
            self._is_over = True
            raise ProcessEnded
        self._operations_left -= 1

    async def begin(self) -> None:
        self.directory = LogDirectory.open(self.files, "/data", self.entropy)
        await self.directory.load(lambda _: self.config, self.now_ms)
        self.log = await self.directory.create(ORDERS, self.config, None)

    async def play(self, step: Step) -> None:
        """Run one step, which may crash, and compare."""
        self._hazard, ends = self._at_rest(), self.ends
        work: Callable[[Step], Awaitable[None]] = getattr(self, f"{step.kind}_step")
        try:
            await work(step)
        except ProcessEnded:
            await self._start_again()
        except (BrokerError, StorageError) as refused:
            self.refusals += 1
            self._require_storage_error(refused)
        if self.directory.failure is not None:
            self.directory.abandon()
            await self._start_again()
        if step.kind == "restart_at" and self.ends != ends:
            await self.play(step)  # as the follower will, which is still too far behind
        self.check(thorough=False)

    def _require_storage_error(self, refused: Exception) -> None:
        if isinstance(refused, BrokerError):
            assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR, refused

    def _at_rest(self) -> Hazard:
        return Hazard(self.model.batches, self.model.batches_end, self.model.start)

    # Appends.

    def _batch(self, step: Step, first: int, **how: Any) -> tuple[bytearray, WrittenBatch]:
        count = 1 + step.second % 4
        builder = BatchBuilder(compression=CODECS[step.third % len(CODECS)], **how)
        records = []
        for number in range(count):
            offset = first + number
            timestamp = self.now_ms + (step.third * 7 + number * 13) % 40 - 20
            key = b"key %d" % ((step.first + number) % KEYS)
            is_tombstone = (step.second + number) % 11 == 10
            value = None if is_tombstone else b"%d " % offset * (1 + step.first % 12)
            builder.append(timestamp, key, value)
            records.append(Written(offset, timestamp, key, value, self.leader_epoch))
        written = WrittenBatch(tuple(records), first + count, count=count)
        return bytearray(builder.build()), written

    async def append_step(self, step: Step) -> None:
        """Append a batch of one to four records, as leader or as follower.

        After a truncation inside a batch, a follower may get a batch that starts before its log end offset.
        """
        as_follower = step.first % 5 == 4
        batches_end = self.log.segments[-1].next_offset()
        contains_end = batches_end + 1 + step.second % 4 > self.model.end
        first = batches_end if as_follower and contains_end else self.model.end
        how = {"base_offset": first, "leader_epoch": self.leader_epoch} if as_follower else {}
        data, batch = self._batch(step, first, **how)
        self._append(data, batch, as_follower=as_follower)

    async def produce_step(self, step: Step) -> None:
        """Append a batch of one of up to three idempotent producers, with its next sequence number."""
        known = self.model.last_batches()
        producer = sorted(known)[step.first % len(known)] if len(known) > step.first % 3 else -1
        sequence = 0
        if producer < 0:
            self.producers += 1
            producer = self.producers
        else:
            sequence = known[producer].base_sequence + known[producer].count
        how = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        data, batch = self._batch(step, self.model.end, **how)
        self._append(data, batch._replace(producer_id=producer, base_sequence=sequence))

    async def repeat_step(self, step: Step) -> None:
        """Repeat a producer's last batch: its offsets are returned, and it is not stored."""
        known = self.model.last_batches()
        if not known:
            return
        batch = known[sorted(known)[step.first % len(known)]]
        if len(batch.records) != batch.count:
            return
        builder = BatchBuilder(
            producer_id=batch.producer_id, producer_epoch=0, base_sequence=batch.base_sequence
        )
        for record in batch.records:
            builder.append(record.timestamp, record.key, record.value)
        appended = self.log.append_as_leader(bytearray(builder.build()), self.leader_epoch, self.now_ms)
        assert appended.is_duplicate
        assert appended.first_offset == batch.first_offset

    def _append(self, data: bytearray, batch: WrittenBatch, *, as_follower: bool = False) -> None:
        model = self.model
        self._hazard = self._at_rest()._replace(batches=[*model.batches, batch])
        append = self.log.append_as_follower if as_follower else self.log.append_as_leader
        appended = append(data, self.leader_epoch, self.now_ms)
        assert appended.first_offset == batch.first_offset
        model.append(batch)
        self.log.high_watermark = model.high_watermark = model.end

    async def epoch_step(self, step: Step) -> None:
        """Change the leader. Its epoch is assigned at once, or with its first batch."""
        self.leader_epoch += 1 + step.first % 2
        if step.second % 2:
            self.log.assign_leader_epoch(self.leader_epoch)

    async def lag_step(self, step: Step) -> None:
        """Keep the high watermark back, as with followers that have not fetched yet."""
        model = self.model
        model.high_watermark = model.start + step.first % (model.end - model.start + 1)
        self.log.high_watermark = model.high_watermark

    async def clock_step(self, step: Step) -> None:
        self.now_ms += step.first

    # Segments.

    async def roll_step(self, step: Step) -> None:
        del step
        self.log.roll(self.now_ms)

    async def flush_step(self, step: Step) -> None:
        """Flush. No power loss may change the batches from then on, not only the next one of this run."""
        del step
        before = self.log.recovery_point
        await self.log.flush()
        assert self.log.recovery_point == self.model.end
        for segment in self.log.segments:
            path = f"{self.log.directory}/{segment.base_offset:020}.log"
            assert self.memory.durable_size(path) >= segment.size, path
        if before != self.model.end:
            self.model.synced(before)

    async def checkpoint_step(self, step: Step) -> None:
        """Write one of the three checkpoints, or all."""
        which = step.first % 4
        if which in (0, 3):
            await self.directory.checkpoint_recovery_points()
        if which in (1, 3):
            await self.directory.checkpoint_log_start_offsets()
            if self.model.start > self.log.segments[0].base_offset:
                self.model.start_kept = self.model.start
        if which in (2, 3):
            await self.directory.checkpoint_high_watermarks()

    # Deletion and truncation.

    async def advance_step(self, step: Step) -> None:
        """DeleteRecords."""
        model = self.model
        offset = model.start + step.first % (model.high_watermark - model.start + 1)
        self.log.advance_log_start_offset(offset)
        model.start = offset

    async def retain_step(self, step: Step) -> None:
        """Delete segments by time, size or log start offset, and remove deleted files."""
        model, log = self.model, self.log
        self._hazard = self._at_rest()._replace(start_max=model.high_watermark)
        bounds: dict[str, Any] = ({"retention_ms": step.second}, {"retention_bytes": step.second * 10}, {})[
            step.first % 3
        ]
        log.configure(replace(self.config, **bounds))
        try:
            gone = await delete_old_segments(log, self.now_ms, self.now_ms)
            await delete_pending_segments(log, self.now_ms)
        finally:
            log.configure(self.config)
            self._see_retained(bounds)
        if gone:
            model.start_kept = max(model.start_kept, log.segments[0].base_offset)

    def _see_retained(self, bounds: dict[str, int]) -> None:
        model, log = self.model, self.log
        assert model.start <= log.log_start_offset <= max(model.high_watermark, model.start)
        gone = model.records(model.start, log.log_start_offset)
        if gone and "retention_ms" in bounds:
            assert max(record.timestamp for record in gone) < self.now_ms - bounds["retention_ms"]
        if gone and "retention_bytes" in bounds:
            assert log.size_bytes >= bounds["retention_bytes"]
        assert not gone or (bounds and "delete" in self.config.cleanup_policy)
        model.start = log.log_start_offset

    async def truncate_step(self, step: Step) -> None:
        """Truncate, as a follower that diverged from its leader, at or inside a batch.

        Then write checkpoints, or not: a crash may come before.
        """
        model = self.model
        starts = [batch for batch in model.batches if batch.first_offset >= model.start]
        if not starts:
            return
        batch = starts[-1 - step.first % len(starts)]
        offset = batch.first_offset + step.third % batch.count
        before = [each.next_offset for each in model.batches if each.next_offset <= batch.first_offset]
        end_min = max(before, default=0)
        self._hazard = self._at_rest()._replace(end_min=end_min)
        model.flushed = min(model.flushed, end_min)
        undone = (list(model.batches), offset)
        model.undone.append(undone)
        self.log.truncate_to(offset, self.now_ms)
        model.undone.remove(undone)
        model.cut(offset)
        self._hazard = self._at_rest()
        if step.second % 2 == 0:
            await self._checkpoint_after_cut()

    async def restart_at_step(self, step: Step) -> None:
        """Truncate fully and restart at the leader's log start offset."""
        offset = self.model.end + step.first % 50
        self._hazard = Hazard(self.model.batches, 0, self.model.end, may_be_empty=True)
        self.model.flushed = 0
        self.model.undone.append((self.model.batches, 0))
        self.log.truncate_fully_and_start_at(offset, self.now_ms)
        self.model.begin_at(offset)
        self._hazard = self._at_rest()._replace(end_min=0, may_be_empty=True)
        if step.second % 2 == 0:
            await self._checkpoint_after_cut()

    async def _checkpoint_after_cut(self) -> None:
        for _ in range(STARTS_MAX):
            with suppress(StorageError):
                await self.directory.checkpoint_recovery_points()
                await self.directory.checkpoint_log_start_offsets()
                await self.directory.checkpoint_cleaned_offsets()
                return
            if self.directory.failure is not None:
                return

    # Compaction.

    async def policy_step(self, step: Step) -> None:
        """Turn compaction on or off."""
        policy = (("delete",), ("compact",), ("compact", "delete"))[step.first % 3]
        self.config = replace(self.config, cleanup_policy=policy)
        self.log.configure(self.config)

    async def compact_step(self, step: Step) -> None:
        """Run the cleaner; every other time after a flush and a segment roll."""
        if step.first % 3:
            self.log.roll(self.now_ms)
            await self.flush_step(step)
        model = self.model
        self._hazard = self._at_rest()._replace(is_compacting=True)
        self.was_compacted |= self.config.is_compacted
        before = model.shown()
        await self.cleaner().clean_filthiest_log()
        first = self.log.segments[0].base_offset
        gone = [batch for batch in model.batches if batch.next_offset <= first]
        model.batches = gone + read_batches(self.log)
        after = model.shown()
        newest = latest_by_key(before)
        assert set(after) <= set(before)
        assert {record for record in newest.values() if record.value is not None} <= set(after)
        if not self.config.is_compacted:
            assert after == before

    def cleaner(self) -> LogCleaner:
        return LogCleaner([self.directory], CleanerConfig, StandingClock(self.now_ms), self.entropy)

    # Faults.

    async def full_step(self, step: Step) -> None:
        """Fail the next write to some kind of file with ENOSPC."""
        self.memory.fail_next_write(
            errno.ENOSPC, written=step.second % 60, name_end=NAMES[step.first % len(NAMES)]
        )

    async def broken_step(self, step: Step) -> None:
        """Fail the next sync of some kind of file."""
        self.memory.fail_next_sync(errno.EIO, name_end=NAMES[step.first % len(NAMES)])

    async def end_step(self, step: Step) -> None:
        """Crash the process (or, in turn, cut the power) before a coming file operation."""
        self._operations_left = step.first % 25
        self._is_power_lost = bool(step.second % 2)
        self._crash_seed = step.third

    async def kill_step(self, step: Step) -> None:
        del step
        self._is_power_lost = False
        raise ProcessEnded

    async def power_step(self, step: Step) -> None:
        self._is_power_lost = True
        self._crash_seed = step.first
        raise ProcessEnded

    async def stop_step(self, step: Step) -> None:
        """Shut down cleanly, unless flushing fails."""
        del step
        before, is_open = self.log.recovery_point, self.log._active is not None
        try:
            await self.directory.close()
        except StorageError:
            self.refusals += 1
            self._is_power_lost = False
        else:
            self.model.start_kept = self.model.start
            if is_open or before != self.model.end:
                self.model.synced(before)
        await self._start_again()

    # Starts.

    async def _start_again(self) -> None:
        """Open the log, repeatedly if startup crashes too, and adopt its state if it is valid."""
        lost = False
        for _ in range(STARTS_MAX):
            self._let_go()
            lost |= self._lose_power()
            try:
                await self._open()
            except ProcessEnded:
                continue
            except StorageError:
                self.directory.abandon()
                continue
            break
        else:
            raise AssertionError("no start succeeds")
        self._take_over(lost)
        self.check(thorough=True)

    def _let_go(self) -> None:
        self.ends += 1
        self._is_over = False
        self._operations_left = -1
        self.directory.abandon()

    def _lose_power(self) -> bool:
        if not self._is_power_lost:
            return False
        self._is_power_lost = False
        self.memory.crash(SeededEntropy(self._crash_seed))
        return True

    async def _open(self) -> None:
        self.directory = LogDirectory.open(self.files, "/data", self.entropy)
        await self.directory.load(lambda _: self.config, self.now_ms)
        if ORDERS in self.directory.unusable and not await self.directory.reopen(ORDERS):
            raise self.directory.unusable[ORDERS]
        log = self.directory.get(ORDERS)
        assert log is not None, "the log is gone"
        self.log = log

    def _take_over(self, power_was_lost: bool) -> None:
        """Check the state after a startup, and adopt it."""
        model, hazard, log = self.model, self._hazard, self.log
        with self._on_a_sound_disk():
            batches = read_batches(log)
        start, end = log.log_start_offset, log.log_end_offset
        end_min = min(hazard.end_min, model.flushed) if power_was_lost else hazard.end_min
        if self.config.is_compacted or self.was_compacted:
            # The last batch before a truncation may have been compacted away; the log then ends before it.
            end_min = max(
                (batch.next_offset for batch in hazard.batches if batch.next_offset <= end_min), default=0
            )
        may_be = [hazard.batches, *(before for before, _ in model.undone if power_was_lost)]
        shown = records_of(batches, start, end)
        is_empty_anew = not shown and start == end and (hazard.may_be_empty or start == model.start_kept)
        assert is_empty_anew or model.start_kept <= start <= hazard.start_max, (start, model, hazard)
        assert is_empty_anew or end >= end_min, (end, end_min)
        if self.config.is_compacted or self.was_compacted:
            is_possible = as_sifted(may_be, shown, start, end_min, compacting=hazard.is_compacting)
            gone = [batch for batch in hazard.batches if batch.next_offset <= log.segments[0].base_offset]
            taken = gone + batches if is_possible else None
        else:
            taken = as_in_one_of(may_be, shown, start, end)
        assert taken is not None or is_empty_anew, (start, end, shown, may_be)
        model.batches = [batch for batch in taken or () if batch.next_offset <= end]
        model.start, model.end = start, end
        model.batches_end = end
        model.start_max = min(model.start_max, end)
        model.start_kept = min(model.start_kept, start)
        model.flushed = min(model.flushed, end)
        if power_was_lost:
            model.undone = []
        model.high_watermark = min(max(self.directory.high_watermarks.get(ORDERS, 0), start), end)
        log.high_watermark = model.high_watermark

    # Comparisons.

    def check(self, *, thorough: bool) -> None:
        """Assert that log and model are equal."""
        with self._on_a_sound_disk():
            compare(self.log, self.model, thorough=thorough)

    @contextmanager
    def _on_a_sound_disk(self) -> Iterator[None]:
        """Suspend armed errors: a read may have to rebuild an index."""
        memory = self.memory
        armed = memory._write_failure, memory._sync_failure, self._operations_left
        memory._write_failure = memory._sync_failure = None
        self._operations_left = -1
        try:
            yield
        finally:
            memory._write_failure, memory._sync_failure, self._operations_left = armed


def play(steps: Iterable[Step], config: LogConfig = CONFIG) -> ModelledLog:
    """Run steps on an empty log; raises AssertionError on a difference."""

    async def main() -> ModelledLog:
        modelled = ModelledLog()
        modelled.config = config
        await modelled.begin()
        for step in steps:
            await modelled.play(step)
        await modelled.play(Step("kill"))
        modelled.check(thorough=True)
        return modelled

    return asyncio.run(main())


WEIGHTS = {
    "append": 8,
    "produce": 4,
    "repeat": 2,
    "epoch": 1,
    "lag": 1,
    "clock": 2,
    "roll": 2,
    "flush": 3,
    "checkpoint": 3,
    "advance": 1,
    "retain": 3,
    "truncate": 2,
    "restart_at": 1,
    "policy": 2,
    "compact": 4,
    "full": 1,
    "broken": 1,
    "end": 3,
    "kill": 1,
    "power": 2,
    "stop": 1,
}
"""Relative frequency of each step."""

KINDS = tuple(kind for kind, weight in WEIGHTS.items() for _ in range(weight))
