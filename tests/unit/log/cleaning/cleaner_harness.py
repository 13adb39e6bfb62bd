"""A log directory with one compacted log and a log cleaner, on in-memory files and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from odradek.log.cleaning.log_cleaner import LogCleaner
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log import Log
from odradek.log.log_config import CleanerConfig, LogConfig
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


class CleanerHarness:
    """A log directory and its cleaner. ``open`` loads it, also again after a close or a crash."""

    def __init__(self, files: MemoryFileSystem, clock: VirtualClock, entropy: Any, config: LogConfig) -> None:
        self.files = files
        self.clock = clock
        self.entropy = entropy
        self.config = config
        self.cleaner_config = CleanerConfig()
        self.steps: list[str] = []
        self.directory: LogDirectory
        self.cleaner: LogCleaner

    async def open(self) -> CleanerHarness:
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

    def append(self, *pairs: Pair, timestamp: int | None = None, **options: Any) -> int:
        """Append one committed batch; return its first offset."""
        builder = BatchBuilder(**options)
        at = self.clock.wall_ms() if timestamp is None else timestamp
        for key, value in pairs:
            builder.append(at, key, value)
        return self.append_batch(bytearray(builder.build()))

    def append_batch(self, batch: bytearray, **options: Any) -> int:
        appended = self.log.append_as_leader(batch, 0, self.clock.wall_ms(), **options)
        self.log.high_watermark = self.log.log_end_offset
        return appended.first_offset

    def abort(self, producer_id: int, producer_epoch: int = 0) -> None:
        self._end(ControlRecordType.ABORT, producer_id, producer_epoch)

    def commit(self, producer_id: int, producer_epoch: int = 0) -> None:
        self._end(ControlRecordType.COMMIT, producer_id, producer_epoch)

    def _end(self, options: ControlRecordType, producer_id: int, producer_epoch: int) -> None:
        self.log.append_end_marker(
            EndTransactionMarker(options, 0), producer_id, producer_epoch, 0, self.clock.wall_ms()
        )
        self.log.high_watermark = self.log.log_end_offset

    async def seal(self) -> None:
        """Roll and flush, so that all records are cleanable."""
        self.log.roll(self.clock.wall_ms())
        await self.log.flush()

    async def write(self, *pairs: Pair, **options: Any) -> None:
        """Write a segment of one-record batches."""
        for pair in pairs:
            self.append(pair, **options)
        await self.seal()

    # Reading.

    def batches(self) -> list[tuple[Any, list[Record]]]:
        """Read all batches: headers and records."""
        batches: list[tuple[Any, list[Record]]] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            part = self.log.read(offset, 1 << 20).data
            data = part if isinstance(part, bytes) else part.read()
            headers = read_headers(data)
            if not headers:
                break
            batches += [(header, decode_batch(data, header)) for header in headers]
            offset = headers[-1].next_offset
        return batches

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (record.offset, record.key, record.value)
            for header, records in self.batches()
            if not header.is_control
            for record in records
            if record.offset >= self.log.log_start_offset
        ]

    def values(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(key, value) for _, key, value in self.records()]

    def names(self, *endings: str) -> list[str]:
        return [name for name in self.files.list_names(PATH) if name.endswith(endings or "")]

    # Cleaning.

    async def clean(self) -> bool:
        return await self.cleaner.clean_filthiest_log()

    async def clean_all(self, cleanings_max: int = 100) -> int:
        """Clean until there is nothing to do; return the number of cleanings."""
        for number in range(cleanings_max):
            if not await self.clean():
                return number
        raise AssertionError(f"still dirty after {cleanings_max} cleanings")


def latest_by_key(
    pairs: Iterable[tuple[int, bytes | None, bytes | None]],
) -> dict[bytes, tuple[int, bytes | None]]:
    """Return the latest record of each key."""
    return {key: (offset, value) for offset, key, value in pairs if key is not None}


Scenario = Callable[[CleanerHarness], Awaitable[None]]


def run_scenario(scenario: Scenario, entropy: Any, **config: Any) -> None:
    """Run a scenario on a new harness, on virtual time."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        files = MemoryFileSystem(clock.wall_ms)
        await scenario(await CleanerHarness(files, clock, entropy, compacted(**config)).open())

    run_virtually(main)
