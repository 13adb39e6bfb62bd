"""Fixtures of the log tests: seeded entropy, batches, logs on in-memory files."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery.log_loader import LogLoadContext, RecoveryResult, create_log, open_log
from odradek.log.segments.log_segment import OpenSegments, SegmentContext
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode
from odradek.testing.files import MemoryFileSystem

ORDERS = TopicPartition("orders", 0)
DIRECTORY = "/data/orders-0"


class SeededEntropy:
    """Entropy from a seed; ``random`` can be reseeded."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)

    def token(self, size_bytes: int) -> bytes:
        return self.random.randbytes(size_bytes)

    def below(self, limit: int) -> int:
        return self.random.randrange(limit)

    def uuid(self) -> bytes:
        return self.token(16)


def make_batch(count: int = 1, timestamp: int = 1000, value: bytes = b"value", **options: Any) -> bytearray:
    """Build a batch of ``count`` records, one millisecond apart."""
    builder = BatchBuilder(**options)
    for number in range(count):
        builder.append(timestamp + number, b"key", value)
    return bytearray(builder.build())


class LogHarness:
    """One log on in-memory files, opened and closed by the test."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.files = MemoryFileSystem(lambda: self.now_ms)
        self.files.make_directories("/data")
        self.files.sync_dir("/")
        self.entropy = SeededEntropy()
        self.opened = OpenSegments()
        self.rolled: list[Log] = []
        self.failures: list[Exception] = []
        self.recovered = RecoveryResult()

    def load_context(self, **options: Any) -> LogLoadContext:
        options.setdefault("had_clean_shutdown", True)
        return LogLoadContext(
            self.files,
            self.entropy,
            self.opened,
            on_roll=self.rolled.append,
            on_failure=self.failures.append,
            **options,
        )

    def create(self, **config: Any) -> Log:
        return create_log(ORDERS, DIRECTORY, LogConfig(**config), self.load_context())

    def open(self, config: dict[str, Any] | None = None, **options: Any) -> Log:
        self.recovered = RecoveryResult()
        return open_log(
            ORDERS, DIRECTORY, LogConfig(**(config or {})), self.load_context(**options), self.recovered
        )

    def context(self, interval_bytes: int = 4096, index_bytes_max: int = 10 << 20) -> SegmentContext:
        self.files.make_directories(DIRECTORY)
        return SegmentContext(self.files, DIRECTORY, self.opened, interval_bytes, index_bytes_max)

    def path(self, name: str) -> str:
        return f"{DIRECTORY}/{name}"

    def append(self, log: Log, count: int = 1, *, leader_epoch: int = 0, **options: Any) -> int:
        """Append a batch and return its first offset."""
        return log.append_as_leader(make_batch(count, **options), leader_epoch, self.now_ms).first_offset

    def records(self, log: Log) -> list[tuple[int, int, bytes | None]]:
        """Read the whole log: offset, timestamp, value."""
        records: list[tuple[int, int, bytes | None]] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20).data
            if not data:
                break
            batch = decode(data if isinstance(data, bytes) else data.read())
            records += [
                (record.offset, record.timestamp, record.value) for record in batch if record.offset >= offset
            ]
            offset = records[-1][0] + 1
        return records

    def run(self, work: Any) -> Any:
        async def wait() -> Any:
            return await work

        return asyncio.run(wait())


@pytest.fixture
def harness() -> LogHarness:
    return LogHarness()


@pytest.fixture(scope="session")
def new_harness() -> Callable[[], LogHarness]:
    """Return the class, for tests that need several harnesses."""
    return LogHarness


@pytest.fixture(scope="session")
def batch() -> Callable[..., bytearray]:
    return make_batch


@pytest.fixture(scope="session")
def new_entropy() -> Callable[[int], SeededEntropy]:
    return SeededEntropy
