"""Several data directories: where new logs go, and how one fails without the others."""

import asyncio
import errno
from collections import Counter
from typing import Any

import pytest

from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.testing.files import MemoryFileSystem

PATHS = ["/a", "/b", "/c"]
TOPIC_ID = b"0123456789abcdef"
CONFIG = LogConfig()


@pytest.fixture
def files(bench: Any) -> MemoryFileSystem:
    files: MemoryFileSystem = bench.files
    return files


@pytest.fixture
def chance(bench: Any) -> Any:
    return bench.chance


def _orders(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


async def _load(directories: LogManager) -> LogManager:
    await directories.load(lambda topic: CONFIG, 0)
    return directories


async def _create(directories: LogManager, number: int, *, is_new: bool = True) -> str:
    """Begin a log; give the directory it is in."""
    log = await directories.create(_orders(number), CONFIG, TOPIC_ID, is_new=is_new)
    return log.directory.rpartition("/")[0]


async def _close(directories: LogManager) -> None:
    for directory in directories:
        await directory.close()


def test_new_logs_go_where_fewest_are(files: MemoryFileSystem, chance: Any) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        for number in range(7):
            before = {directory.path: len(directory) for directory in directories}
            assert before[await _create(directories, number)] == min(before.values())
        assert [len(directory) for directory in directories] == [3, 2, 2]

    asyncio.run(main())


def test_logs_begun_at_the_same_time_are_spread_too(files: MemoryFileSystem, chance: Any) -> None:
    async def later(work: Any) -> Any:
        await asyncio.sleep(0)
        return work()

    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        files.offload = later  # type: ignore[method-assign]
        where = await asyncio.gather(*(_create(directories, number) for number in range(30)))
        assert Counter(where) == dict.fromkeys(PATHS, 10)

    asyncio.run(main())


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_log_that_cannot_be_begun_is_begun_in_the_next_directory(
    files: MemoryFileSystem, chance: Any, code: int
) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        files.fail_next_write(code, name_end="/a/orders-0/partition.metadata.tmp")
        assert await _create(directories, 0) == "/b"
        assert not files.exists("/a/orders-0"), "else the partition would have two logs"
        assert list(directories.failed) == (["/a"] if code == errno.EIO else []), "full is not broken"
        assert directories.find(_orders(0)) is not None

    asyncio.run(main())


def test_a_failed_directory_is_passed_over_and_its_failure_told_once(
    files: MemoryFileSystem, chance: Any
) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        for number in range(3):
            await _create(directories, number)
        told: list[LogDirectory] = []
        directories.on_failure = told.append
        broken = directories.find_directory("/b")
        assert broken is not None
        log = next(iter(broken))
        broken.fail(StorageError("first"))
        broken.fail(StorageError("second"))
        assert told == [broken]
        assert (directories.paths, [one.path for one in directories]) == (PATHS, ["/a", "/c"])
        assert str(directories.failed["/b"]) == "first"
        assert (directories.find_directory("/b"), directories.find(log.topic_partition)) == (None, None)
        with pytest.raises(StorageError, match="first"):
            await broken.create(_orders(9), CONFIG, TOPIC_ID)
        with pytest.raises(StorageError, match="first"):
            await broken.checkpoint_recovery_points()
        broken.abandon()
        assert not files.exists("/b/recovery-point-offset-checkpoint")
        LogDirectory.open(files, "/b", chance)  # a repaired disk may be used by whoever comes
        assert await _create(directories, 4) != "/b"

    asyncio.run(main())


def test_a_partition_that_is_not_new_is_not_begun_anew_beside_a_failed_directory(
    files: MemoryFileSystem, chance: Any
) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        assert await _create(directories, 0, is_new=False) == "/a", "nothing failed: it never had a log"
        next(iter(directories)).fail(StorageError("gone"))
        with pytest.raises(StorageError, match="no log of orders-1 was found, and /a cannot be read"):
            await _create(directories, 1, is_new=False)

    asyncio.run(main())


def test_a_directory_that_failed_while_a_log_was_begun_in_it_does_not_get_it(
    files: MemoryFileSystem, chance: Any
) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        first = next(iter(directories))

        async def work_then_fail(work: Any) -> Any:
            result = work()
            first.fail(StorageError("gone"))
            return result

        files.offload = work_then_fail  # type: ignore[method-assign]
        assert await _create(directories, 0) == "/b"
        assert not files.exists("/a/orders-0")

    asyncio.run(main())


def test_a_directory_that_cannot_be_opened_is_left_out(files: MemoryFileSystem, chance: Any) -> None:
    files.write_whole("/b", b"a file where a directory should be")
    directories = asyncio.run(_load(LogManager.open(files, PATHS, chance)))
    assert [one.path for one in directories] == ["/a", "/c"]
    assert "/b cannot be used as a data directory" in str(directories.failed["/b"])


def test_a_directory_that_cannot_be_loaded_is_left_out_unmarked(files: MemoryFileSystem, chance: Any) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        for number in range(3):
            await _create(directories, number)
        await _close(directories)
        list_files = files.list_files

        def refuse(path: str) -> dict[str, int]:
            if path.startswith("/b/"):
                raise OSError(errno.EIO, "Input/output error", path)
            return list_files(path)

        files.list_files = refuse  # type: ignore[method-assign]
        again = await _load(LogManager.open(files, PATHS, chance))
        assert [one.path for one in again] == ["/a", "/c"]
        assert "cannot open the log in /b/orders-1" in str(again.failed["/b"])
        await _close(again)
        assert not files.exists("/b/.kafka_cleanshutdown")
        files.list_files = list_files  # type: ignore[method-assign]
        whole = await _load(LogManager.open(files, PATHS, chance))
        assert [len(one) for one in whole] == [1, 1, 1], "its lock was given up, and nothing was changed"

    asyncio.run(main())


def test_without_the_first_directory_there_is_no_start_and_no_other_one_is_made(
    files: MemoryFileSystem, chance: Any
) -> None:
    files.write_whole("/a", b"a file where a directory should be")
    for paths in (PATHS, PATHS[:1]):
        with pytest.raises(StorageError, match=r"^/a cannot be used as a data directory.*first of log\.dirs"):
            LogManager.open(files, paths, chance)
    assert not files.exists("/b")


def test_a_directory_of_another_broker_stops_the_start_and_the_others_are_let_go(
    files: MemoryFileSystem, chance: Any
) -> None:
    held = LogDirectory.open(files, "/b", chance)
    with pytest.raises(StorageError, match="/b is in use by another broker"):
        LogManager.open(files, PATHS, chance)
    held.abandon()
    assert len(LogManager.open(files, PATHS, chance)) == 3


def test_a_directory_is_named_once(files: MemoryFileSystem, chance: Any) -> None:
    with pytest.raises(StorageError, match=r"log\.dirs has /a twice"):
        LogManager.open(files, ["/a", "/b", "/b/../a"], chance)


def test_a_log_in_two_directories_stops_the_start(files: MemoryFileSystem, chance: Any) -> None:
    async def main() -> None:
        directories = await _load(LogManager.open(files, PATHS, chance))
        for directory in list(directories)[1:]:
            await directory.create(_orders(0), CONFIG, TOPIC_ID)
        await _close(directories)
        with pytest.raises(StorageError, match="orders-0 has a log in /b and one in /c"):
            await _load(LogManager.open(files, PATHS, chance))

    asyncio.run(main())
