"""What tests of the log share: seeded chance, batches, logs on files in memory."""

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


class Chance:
    """Entropy from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)

    def token(self, size_bytes: int) -> bytes:
        return self.random.randbytes(size_bytes)

    def below(self, limit: int) -> int:
        return self.random.randrange(limit)

    def uuid(self) -> bytes:
        return self.token(16)


def make_batch(count: int = 1, timestamp: int = 1000, value: bytes = b"value", **how: Any) -> bytearray:
    """A batch of ``count`` records a millisecond apart."""
    builder = BatchBuilder(**how)
    for number in range(count):
        builder.append(timestamp + number, b"key", value)
    return bytearray(builder.build())


class Bench:
    """One log's directory, on files in memory, opened and closed at will."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.files = MemoryFileSystem(lambda: self.now_ms)
        self.files.make_directories("/data")
        self.files.sync_dir("/")
        self.chance = Chance()
        self.opened = OpenSegments()
        self.rolled: list[Log] = []
        self.failures: list[Exception] = []
        self.recovered = RecoveryResult()

    def how(self, **given: Any) -> LogLoadContext:
        given.setdefault("had_clean_shutdown", True)
        return LogLoadContext(
            self.files,
            self.chance,
            self.opened,
            on_roll=self.rolled.append,
            on_failure=self.failures.append,
            **given,
        )

    def create(self, **config: Any) -> Log:
        return create_log(ORDERS, DIRECTORY, LogConfig(**config), self.how())

    def open(self, config: dict[str, Any] | None = None, **how: Any) -> Log:
        self.recovered = RecoveryResult()
        return open_log(ORDERS, DIRECTORY, LogConfig(**(config or {})), self.how(**how), self.recovered)

    def place(self, interval_bytes: int = 4096, index_bytes_max: int = 10 << 20) -> SegmentContext:
        self.files.make_directories(DIRECTORY)
        return SegmentContext(self.files, DIRECTORY, self.opened, interval_bytes, index_bytes_max)

    def path(self, name: str) -> str:
        return f"{DIRECTORY}/{name}"

    def append(self, log: Log, count: int = 1, *, leader_epoch: int = 0, **how: Any) -> int:
        """Append a batch and give its first offset."""
        return log.append_as_leader(make_batch(count, **how), leader_epoch, self.now_ms).first_offset

    def records(self, log: Log) -> list[tuple[int, int, bytes | None]]:
        """All there is to read: offset, timestamp, value."""
        found = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20).data
            if not data:
                break
            batch = decode(data if isinstance(data, bytes) else data.read())
            found += [(one.offset, one.timestamp, one.value) for one in batch if one.offset >= offset]
            offset = found[-1][0] + 1
        return found

    def run(self, work: Any) -> Any:
        async def wait() -> Any:
            return await work

        return asyncio.run(wait())


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def new_bench() -> Callable[[], Bench]:
    """For tests that need many."""
    return Bench


@pytest.fixture(scope="session")
def batch() -> Callable[..., bytearray]:
    return make_batch


@pytest.fixture(scope="session")
def new_chance() -> Callable[[int], Chance]:
    return Chance
