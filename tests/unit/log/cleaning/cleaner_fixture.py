"""A data directory with one compacted log and a cleaner, on files in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from odradek.log.cleaning.log_cleaner import LogCleaner
from odradek.log.log import Log
from odradek.log.log_config import CleanerConfig, LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode_batch, read_headers
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.records.layout import Record
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.files import MemoryFileSystem

ORDERS = TopicPartition("orders", 0)
PATH = "/data/orders-0"

Pair = tuple[bytes | None, bytes | None]


def compacted(**config: Any) -> LogConfig:
    config.setdefault("cleanup_policy", ("compact",))
    config.setdefault("min_cleanable_dirty_ratio", 0.0)
    return LogConfig(**config)


class Yard:
    """``open`` loads the directory, which is kept between lives; ``files`` outlive it."""

    def __init__(self, files: MemoryFileSystem, clock: VirtualClock, entropy: Any, config: LogConfig) -> None:
        self.files = files
        self.clock = clock
        self.entropy = entropy
        self.config = config
        self.cleaner_config = CleanerConfig()
        self.steps: list[str] = []
        self.directory: LogDirectory
        self.cleaner: LogCleaner

    async def open(self) -> Yard:
        self.files.make_directories("/data")
        self.files.sync_dir("/")
        self.directory = LogDirectory.open(self.files, "/data", self.entropy)
        await self.directory.load(lambda _: self.config, self.clock.monotonic_ms())
        if self.directory.get(ORDERS) is None:
            await self.directory.create(ORDERS, self.config, None)
        self.log.high_watermark = self.log.log_end_offset
        self.cleaner = LogCleaner(
            [self.directory], lambda: self.cleaner_config, self.clock, self.entropy, self.steps.append
        )
        return self

    @property
    def log(self) -> Log:
        log = self.directory.get(ORDERS)
        assert log is not None
        return log

    def configure(self, **config: Any) -> None:
        self.config = replace(self.config, **config)
        self.log.configure(self.config)

    # Writing.

    def append(self, *pairs: Pair, timestamp: int | None = None, **how: Any) -> int:
        """Append one batch, committed at once; give its first offset."""
        builder = BatchBuilder(**how)
        at = self.clock.wall_ms() if timestamp is None else timestamp
        for key, value in pairs:
            builder.append(at, key, value)
        return self.place(bytearray(builder.build()))

    def place(self, batch: bytearray, **how: Any) -> int:
        appended = self.log.append_as_leader(batch, 0, self.clock.wall_ms(), **how)
        self.log.high_watermark = self.log.log_end_offset
        return appended.first_offset

    def abort(self, producer_id: int, producer_epoch: int = 0) -> None:
        self._end(ControlRecordType.ABORT, producer_id, producer_epoch)

    def commit(self, producer_id: int, producer_epoch: int = 0) -> None:
        self._end(ControlRecordType.COMMIT, producer_id, producer_epoch)

    def _end(self, how: ControlRecordType, producer_id: int, producer_epoch: int) -> None:
        self.log.append_end_marker(
            EndTransactionMarker(how, 0), producer_id, producer_epoch, 0, self.clock.wall_ms()
        )
        self.log.high_watermark = self.log.log_end_offset

    async def seal(self) -> None:
        """End the last segment and bring everything to the disk, so that all of it may be compacted."""
        self.log.roll(self.clock.wall_ms())
        await self.log.flush()

    async def write(self, *pairs: Pair, **how: Any) -> None:
        """A segment of one-record batches."""
        for pair in pairs:
            self.append(pair, **how)
        await self.seal()

    # Reading.

    def batches(self) -> list[tuple[Any, list[Record]]]:
        """Headers and records of all that can be read, in order."""
        found = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            part = self.log.read(offset, 1 << 20).data
            data = part if isinstance(part, bytes) else part.read()
            headers = read_headers(data)
            if not headers:
                break
            found += [(header, decode_batch(data, header)) for header in headers]
            offset = headers[-1].next_offset
        return found

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (one.offset, one.key, one.value)
            for header, records in self.batches()
            if not header.is_control
            for one in records
            if one.offset >= self.log.log_start_offset
        ]

    def values(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(key, value) for _, key, value in self.records()]

    def names(self, *endings: str) -> list[str]:
        return [name for name in self.files.list_names(PATH) if name.endswith(endings or "")]

    # Compaction.

    async def clean(self) -> bool:
        return await self.cleaner.clean_filthiest_log()

    async def clean_all(self, rounds_max: int = 100) -> int:
        """Rounds until there is nothing to do."""
        for number in range(rounds_max):
            if not await self.clean():
                return number
        raise AssertionError(f"still something to do after {rounds_max} rounds")


def newest_of(
    pairs: Iterable[tuple[int, bytes | None, bytes | None]],
) -> dict[bytes, tuple[int, bytes | None]]:
    """The last record of each key."""
    return {key: (offset, value) for offset, key, value in pairs if key is not None}


Scenario = Callable[[Yard], Awaitable[None]]


def play(scenario: Scenario, entropy: Any, **config: Any) -> None:
    """Run a scenario on a yard of its own, on virtual time."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        files = MemoryFileSystem(clock.wall_ms)
        await scenario(await Yard(files, clock, entropy, compacted(**config)).open())

    run_virtually(main)
