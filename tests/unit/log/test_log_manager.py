"""Log manager: placement of new logs, failures of single directories."""

import asyncio
import errno
from collections import Counter
from typing import Any

import pytest

from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.testing.files import MemoryFileSystem

PATHS = ["/a", "/b", "/c"]
TOPIC_ID = b"0123456789abcdef"
CONFIG = LogConfig()


@pytest.fixture
def files(harness: Any) -> MemoryFileSystem:
    files: MemoryFileSystem = harness.files
    return files


@pytest.fixture
def entropy(harness: Any) -> Any:
    return harness.entropy


def _orders(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


async def _load(log_manager: LogManager) -> LogManager:
    await log_manager.load(lambda topic: CONFIG, 0)
    return log_manager


async def _create(log_manager: LogManager, number: int, *, is_new: bool = True) -> str:
    """Create a log; return its directory."""
    log = await log_manager.create(_orders(number), CONFIG, TOPIC_ID, is_new=is_new)
    return log.directory.rpartition("/")[0]


async def _close(log_manager: LogManager) -> None:
    for directory in log_manager:
        await directory.close()


def test_new_logs_are_created_in_the_directory_with_the_fewest(files: MemoryFileSystem, entropy: Any) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        for number in range(7):
            before = {directory.path: len(directory) for directory in log_manager}
            assert before[await _create(log_manager, number)] == min(before.values())
        assert [len(directory) for directory in log_manager] == [3, 2, 2]

    asyncio.run(main())


def test_logs_created_concurrently_are_spread_over_directories(files: MemoryFileSystem, entropy: Any) -> None:
    async def run_later(work: Any) -> Any:
        await asyncio.sleep(0)
        return work()

    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        files.offload = run_later  # type: ignore[method-assign]
        paths = await asyncio.gather(*(_create(log_manager, number) for number in range(30)))
        assert Counter(paths) == dict.fromkeys(PATHS, 10)

    asyncio.run(main())


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_log_is_created_in_the_next_directory_on_failure(
    files: MemoryFileSystem, entropy: Any, code: int
) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        files.fail_next_write(code, name_end="/a/orders-0/partition.metadata.tmp")
        assert await _create(log_manager, 0) == "/b"
        assert not files.exists("/a/orders-0"), "otherwise the partition would have two logs"
        assert list(log_manager.failed) == (["/a"] if code == errno.EIO else []), (
            "a full disk does not fail the directory"
        )
        assert log_manager.find(_orders(0)) is not None

    asyncio.run(main())


def test_failed_directory_is_skipped_and_reported_once(files: MemoryFileSystem, entropy: Any) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        for number in range(3):
            await _create(log_manager, number)
        reported: list[LogDirectory] = []
        log_manager.on_failure = reported.append
        failed = log_manager.find_directory("/b")
        assert failed is not None
        log = next(iter(failed))
        failed.fail(StorageError("first"))
        failed.fail(StorageError("second"))
        assert reported == [failed]
        assert (log_manager.paths, [directory.path for directory in log_manager]) == (PATHS, ["/a", "/c"])
        assert str(log_manager.failed["/b"]) == "first"
        assert (log_manager.find_directory("/b"), log_manager.find(log.topic_partition)) == (None, None)
        with pytest.raises(StorageError, match="first"):
            await failed.create(_orders(9), CONFIG, TOPIC_ID)
        with pytest.raises(StorageError, match="first"):
            await failed.checkpoint_recovery_points()
        failed.abandon()
        assert not files.exists("/b/recovery-point-offset-checkpoint")
        LogDirectory.open(files, "/b", entropy)  # its lock was released
        assert await _create(log_manager, 4) != "/b"

    asyncio.run(main())


def test_log_of_an_existing_partition_is_not_recreated_while_a_directory_is_offline(
    files: MemoryFileSystem, entropy: Any
) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        assert await _create(log_manager, 0, is_new=False) == "/a", (
            "no directory has failed: there was no log"
        )
        next(iter(log_manager)).fail(StorageError("gone"))
        with pytest.raises(StorageError, match="no log of orders-1 found, and /a cannot be read"):
            await _create(log_manager, 1, is_new=False)

    asyncio.run(main())


def test_log_is_not_created_in_a_directory_that_fails_meanwhile(
    files: MemoryFileSystem, entropy: Any
) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        first = next(iter(log_manager))

        async def fail_after_work(work: Any) -> Any:
            result = work()
            first.fail(StorageError("gone"))
            return result

        files.offload = fail_after_work  # type: ignore[method-assign]
        assert await _create(log_manager, 0) == "/b"
        assert not files.exists("/a/orders-0")

    asyncio.run(main())


@pytest.mark.parametrize(("paths", "limit"), [(["/a"], 1000), (PATHS, 333)])
def test_directories_share_the_open_segments(
    files: MemoryFileSystem, entropy: Any, paths: list[str], limit: int
) -> None:
    files.open_files_max = lambda: 8000  # type: ignore[method-assign]
    log_manager = LogManager.open(files, paths, entropy)
    assert [directory._opened.limit for directory in log_manager] == [limit] * len(paths)


def test_unusable_directory_is_skipped(files: MemoryFileSystem, entropy: Any) -> None:
    files.write_whole("/b", b"a file where a directory should be")
    log_manager = asyncio.run(_load(LogManager.open(files, PATHS, entropy)))
    assert [directory.path for directory in log_manager] == ["/a", "/c"]
    assert "/b cannot be used as a data directory" in str(log_manager.failed["/b"])


def test_directory_that_cannot_be_loaded_is_skipped_without_clean_shutdown_file(
    files: MemoryFileSystem, entropy: Any
) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        for number in range(3):
            await _create(log_manager, number)
        await _close(log_manager)
        list_files = files.list_files

        def fail(path: str) -> dict[str, int]:
            if path.startswith("/b/"):
                raise OSError(errno.EIO, "Input/output error", path)
            return list_files(path)

        files.list_files = fail  # type: ignore[method-assign]
        again = await _load(LogManager.open(files, PATHS, entropy))
        assert [directory.path for directory in again] == ["/a", "/c"]
        assert "cannot open the log in /b/orders-1" in str(again.failed["/b"])
        await _close(again)
        assert not files.exists("/b/.kafka_cleanshutdown")
        files.list_files = list_files  # type: ignore[method-assign]
        loaded = await _load(LogManager.open(files, PATHS, entropy))
        assert [len(directory) for directory in loaded] == [1, 1, 1], (
            "its lock was released, and nothing was changed"
        )

    asyncio.run(main())


def test_unusable_first_directory_prevents_startup_and_creates_no_other(
    files: MemoryFileSystem, entropy: Any
) -> None:
    files.write_whole("/a", b"a file where a directory should be")
    for paths in (PATHS, PATHS[:1]):
        with pytest.raises(StorageError, match=r"^/a cannot be used as a data directory.*first of log\.dirs"):
            LogManager.open(files, paths, entropy)
    assert not files.exists("/b")


def test_directory_in_use_prevents_startup_and_releases_the_others(
    files: MemoryFileSystem, entropy: Any
) -> None:
    locked = LogDirectory.open(files, "/b", entropy)
    with pytest.raises(StorageError, match="/b is in use by another broker"):
        LogManager.open(files, PATHS, entropy)
    locked.abandon()
    assert len(LogManager.open(files, PATHS, entropy)) == 3


def test_duplicate_directory_is_rejected(files: MemoryFileSystem, entropy: Any) -> None:
    with pytest.raises(StorageError, match=r"log\.dirs contains /a twice"):
        LogManager.open(files, ["/a", "/b", "/b/../a"], entropy)


def test_log_in_two_directories_prevents_startup(files: MemoryFileSystem, entropy: Any) -> None:
    async def main() -> None:
        log_manager = await _load(LogManager.open(files, PATHS, entropy))
        for directory in list(log_manager)[1:]:
            await directory.create(_orders(0), CONFIG, TOPIC_ID)
        await _close(log_manager)
        with pytest.raises(StorageError, match="orders-0 has a log in /b and one in /c"):
            await _load(LogManager.open(files, PATHS, entropy))

    asyncio.run(main())
