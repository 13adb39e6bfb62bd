"""Creation of many logs at once."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from odradek.log.directory.log_creations import BATCH_MAX
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.testing.files import MemoryFileSystem

TOPIC_ID = b"0123456789abcdef"
ORDERS = [TopicPartition("orders", number) for number in range(5)]
DIRECTORIES = [f"orders-{number}" for number in range(5)]


async def open_directory(harness: Any) -> LogDirectory:
    directory = LogDirectory.open(harness.files, "/data", harness.entropy)
    await directory.load(lambda topic: LogConfig(), 1000)
    return directory


async def create_all(directory: LogDirectory, partitions: Sequence[TopicPartition] = ORDERS) -> list[Any]:
    return await asyncio.gather(
        *(directory.create(each, LogConfig(), TOPIC_ID) for each in partitions), return_exceptions=True
    )


@pytest.fixture
def synced(harness: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Paths of each sync that goes to the disk."""
    calls: list[list[str]] = []
    sync_all = MemoryFileSystem.sync_all

    def record(files: MemoryFileSystem, paths: Sequence[str]) -> None:
        calls.append(list(paths))
        sync_all(files, paths)

    monkeypatch.setattr(MemoryFileSystem, "sync_all", record)
    return calls


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def wait() -> None:
        await scenario()

    asyncio.run(wait())


def test_logs_are_synced_together(harness, synced):
    async def scenario():
        directory = await open_directory(harness)
        logs = await create_all(directory)
        assert [log.topic_partition for log in logs] == ORDERS
        assert len(synced) == 2
        assert synced[1] == [*(f"/data/{name}" for name in DIRECTORIES), "/data"]

    run(scenario)


def test_batches_are_bounded(harness, synced):
    async def scenario():
        directory = await open_directory(harness)
        partitions = [TopicPartition("orders", number) for number in range(2 * BATCH_MAX + 1)]
        assert all(isinstance(log, Log) for log in await create_all(directory, partitions))
        assert [len(paths) for paths in synced[1::2]] == [BATCH_MAX + 1, BATCH_MAX + 1, 2]
        assert len(directory) == len(partitions)

    run(scenario)


def test_log_that_cannot_be_written_fails_alone(harness):
    async def scenario():
        directory = await open_directory(harness)
        harness.files.fail_next_write(errno.ENOSPC, name_end="orders-2/partition.metadata.tmp")
        results = await create_all(directory)
        assert [isinstance(result, StorageError) for result in results] == [False, False, True, False, False]
        assert "/data/orders-2" in str(results[2])
        assert "orders-2" not in harness.files.list_names("/data")
        assert (len(directory), directory.log_count, directory.failure) == (4, 4, None)

    run(scenario)


@pytest.mark.parametrize("name_end", ["orders-2/partition.metadata.tmp", "orders-2", "/data"])
def test_failed_sync_fails_the_batch(harness, name_end):
    """A sync that succeeds after another one has failed proves nothing."""

    async def scenario():
        directory = await open_directory(harness)
        harness.files.fail_next_sync(errno.ENOSPC, name_end=name_end)
        results = await create_all(directory)
        assert all(isinstance(result, StorageError) for result in results)
        assert not set(DIRECTORIES) & set(harness.files.list_names("/data"))
        assert directory.log_count == 0
        assert all(isinstance(log, Log) for log in await create_all(directory)), "there is space again"

    run(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_created_logs_survive_a_power_loss(harness, seed):
    async def scenario():
        directory = await open_directory(harness)
        await create_all(directory)
        harness.entropy.random.seed(seed)
        harness.files.crash(harness.entropy)
        again = await open_directory(harness)
        assert {log.topic_partition: log.topic_id for log in again} == dict.fromkeys(ORDERS, TOPIC_ID)

    run(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_power_loss_during_creation_leaves_logs_that_can_be_opened(harness, seed):
    """A topic id is complete or missing, because its file is renamed once it is on the disk."""

    async def scenario():
        directory = await open_directory(harness)
        harness.entropy.random.seed(seed)

        def lose_power(path):
            if path.endswith(("metadata.tmp", "orders-1")) and harness.entropy.below(4) == 0:
                raise PowerLost

        harness.files.refuse_sync = lose_power
        creating = asyncio.ensure_future(create_all(directory))
        await asyncio.sleep(0.01)
        creating.cancel()
        harness.files.refuse_sync = lambda path: None
        harness.files.crash(harness.entropy)
        again = await open_directory(harness)
        assert {log.topic_id for log in again} <= {TOPIC_ID, None}
        assert not again.unusable

    run(scenario)


class PowerLost(Exception):
    """Raised where the power fails; nothing is cleaned up after it."""
