"""Log directory: load, close, creation and deletion of logs, checkpoints."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from odradek.log.checkpoints import read_offsets
from odradek.log.directory.directory_lock import unusable_directory
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.testing.files import MemoryFileSystem

T = TypeVar("T")
TOPIC_ID = b"0123456789abcdef"
ORDERS = [TopicPartition("orders", number) for number in range(3)]


def _run(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())


class DirectoryHarness:
    """A log directory that tests open and close."""

    def __init__(self, harness: Any) -> None:
        self.files: MemoryFileSystem = harness.files
        self.entropy = harness.entropy
        self.config = LogConfig(segment_bytes=300)

    def open(self) -> LogDirectory:
        directory = LogDirectory.open(self.files, "/data", self.entropy)
        _run(directory.load(lambda topic: self.config, 1000, threads=2))
        return directory

    def with_orders(self) -> LogDirectory:
        directory = self.open()
        for topic_partition in ORDERS:
            _run(directory.create(topic_partition, self.config, TOPIC_ID))
        return directory

    def crash(self, seed: int = 0) -> None:
        self.entropy.random.seed(seed)
        self.files.crash(self.entropy)


@pytest.fixture
def directory_harness(harness: Any) -> DirectoryHarness:
    return DirectoryHarness(harness)


def test_empty_directory_has_no_logs(directory_harness: DirectoryHarness) -> None:
    directory = directory_harness.open()
    assert (len(directory), directory.had_clean_shutdown, directory.loading.total) == (0, False, 0)
    assert directory_harness.files.list_names("/data") == [".lock"]


def test_created_log_survives_a_crash(directory_harness: DirectoryHarness) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    assert log.topic_id == TOPIC_ID
    directory_harness.crash()
    again = directory_harness.open()
    assert {log.topic_partition for log in again} == set(ORDERS)
    assert all(log.topic_id == TOPIC_ID and log.log_end_offset == 0 for log in again)


@pytest.mark.parametrize("seed", range(5))
def test_new_log_directory_survives_a_power_loss(directory_harness: DirectoryHarness, seed: int) -> None:
    directory = LogDirectory.open(directory_harness.files, "/srv/odradek/data", directory_harness.entropy)
    _run(directory.load(lambda topic: directory_harness.config, 1000))
    _run(directory.create(ORDERS[0], directory_harness.config, TOPIC_ID))
    directory_harness.crash(seed)
    again = LogDirectory.open(directory_harness.files, "/srv/odradek/data", directory_harness.entropy)
    _run(again.load(lambda topic: directory_harness.config, 1000))
    assert [log.topic_partition for log in again] == [ORDERS[0]]


def test_log_cannot_be_created_twice(directory_harness: DirectoryHarness) -> None:
    directory = directory_harness.with_orders()
    with pytest.raises(StorageError, match="already"):
        _run(directory.create(ORDERS[0], directory_harness.config, TOPIC_ID))


def test_directory_cannot_be_opened_by_two_brokers(directory_harness: DirectoryHarness) -> None:
    directory_harness.open()
    with pytest.raises(StorageError, match=r"in use by another broker"):
        directory_harness.open()


def test_clean_shutdown_file_is_written_and_consumed_once(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    for log in directory:
        for _ in range(5):
            log.append_as_leader(batch(2), 0, 1000)
        log.high_watermark = 8
    _run(directory.close(broker_epoch=7))
    assert (
        directory_harness.files.read_whole("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":7}'
    )
    points = directory_harness.files.read_whole("/data/recovery-point-offset-checkpoint")
    assert points == b"0\n3\norders 0 10\norders 1 10\norders 2 10\n"
    directory_harness.crash()
    again = directory_harness.open()
    assert again.had_clean_shutdown
    assert again.loading.recovered == []
    assert {log.log_end_offset for log in again} == {10}
    assert again.high_watermarks == dict.fromkeys(ORDERS, 8)
    assert not directory_harness.files.exists("/data/.kafka_cleanshutdown")
    directory_harness.crash(1)
    assert not directory_harness.open().had_clean_shutdown


def test_failed_shutdown_is_not_marked_clean(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[1])
    assert log is not None
    log.append_as_leader(batch(2), 0, 1000)
    directory_harness.files.fail_next_sync(errno.EIO)
    with pytest.raises(StorageError, match="cannot close /data/orders-"):
        _run(directory.close())
    assert not directory_harness.files.exists("/data/.kafka_cleanshutdown")
    assert not directory_harness.open().had_clean_shutdown


def test_only_unflushed_segments_are_scanned_after_an_unclean_shutdown(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    for _ in range(10):
        log.append_as_leader(batch(2), 0, 1000)
    assert len(log.segments) > 3
    assert _run(directory.flush_rolled()) == 1
    assert _run(directory.flush_rolled()) == 0
    _run(directory.checkpoint_recovery_points())
    directory_harness.crash()
    again = directory_harness.open()
    scanned = {partition: recovered.scanned_segments for partition, recovered in again.loading.recovered}
    assert scanned == dict.fromkeys(ORDERS, 1)
    assert [log.log_end_offset for log in again] == [20, 0, 0]


def test_checkpointed_log_start_offset_survives_a_crash(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    log.append_as_leader(batch(5), 0, 1000)
    log.high_watermark = 5
    log.advance_log_start_offset(3)
    _run(log.flush())
    _run(directory.checkpoint_log_start_offsets())
    assert directory_harness.files.read_whole("/data/log-start-offset-checkpoint") == b"0\n1\norders 0 3\n"
    directory_harness.crash()
    assert [log.log_start_offset for log in directory_harness.open()] == [3, 0, 0]


def test_unreadable_checkpoints_are_reported_and_ignored(directory_harness: DirectoryHarness) -> None:
    _run(directory_harness.with_orders().close())
    directory_harness.files.write_whole("/data/recovery-point-offset-checkpoint", b"nonsense\n0\n")
    again = directory_harness.open()
    assert len(again) == 3
    assert "recovery-point-offset-checkpoint" in again.problems[0]


def test_deleted_log_is_removed_after_the_delay(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    directory.delete(ORDERS[0], 5000)
    assert directory.get(ORDERS[0]) is None
    deleted = [name for name in directory_harness.files.list_names("/data") if name.endswith("-delete")]
    assert len(deleted) == 1
    _run(directory.create(ORDERS[0], directory_harness.config, b"the next topic.."))
    assert _run(directory.remove_due(5000 + 59_999)) == 0
    assert _run(directory.remove_due(5000 + 60_000)) == 1
    names = directory_harness.files.list_names("/data")
    assert not [name for name in names if name.endswith("-delete")]
    assert "orders-0" in names


def test_pending_deletions_continue_after_a_restart(directory_harness: DirectoryHarness) -> None:
    directory = directory_harness.with_orders()
    directory.delete(ORDERS[0], 5000)
    _run(directory.close())
    again = directory_harness.open()
    assert len(again) == 2
    assert _run(again.remove_due(1000 + 60_000)) == 1
    assert [name for name in directory_harness.files.list_names("/data") if name.endswith("-delete")] == []


def test_unknown_names_are_ignored(directory_harness: DirectoryHarness) -> None:
    directory_harness.files.write_whole("/data/meta.properties", b"version=0")
    directory_harness.files.make_directories("/data/lost+found")
    directory_harness.files.make_directories("/data/old-0.ab-stray")
    directory = directory_harness.open()
    assert directory.unknown == [".lock", "lost+found", "meta.properties"]
    assert directory.strays == ["/data/old-0.ab-stray"]
    assert len(directory) == 0


def test_future_log_is_separate_from_current_logs(directory_harness: DirectoryHarness) -> None:
    directory_harness.files.make_directories("/data/orders-0.ab-future")
    directory = directory_harness.open()
    assert directory.get(ORDERS[0]) is None
    assert list(directory.future) == [ORDERS[0]]
    _run(directory.close())


def test_disk_error_while_opening_a_log_fails_the_load(directory_harness: DirectoryHarness) -> None:
    _run(directory_harness.with_orders().close())

    def fail(path: str) -> dict[str, int]:
        raise OSError(errno.EIO, "Input/output error", path)

    directory_harness.files.list_files = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="/data/orders-"):
        directory_harness.open()


def test_disk_error_of_a_log_fails_the_directory(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    log.append_as_leader(batch(1), 0, 0)
    directory_harness.files.fail_next_write(errno.EIO, name_end=".log")
    with pytest.raises(StorageError):
        log.append_as_leader(batch(1), 0, 0)
    assert directory.failure is log.failure


def test_full_disk_during_a_checkpoint_does_not_fail_the_directory(
    directory_harness: DirectoryHarness,
) -> None:
    directory = directory_harness.with_orders()
    directory_harness.files.fail_next_write(errno.ENOSPC)
    with pytest.raises(StorageError, match="No space"):
        _run(directory.checkpoint_high_watermarks())
    assert directory.failure is None
    _run(directory.checkpoint_high_watermarks())


def test_close_of_an_unloaded_directory_changes_nothing(harness: Any) -> None:
    directory_harness = DirectoryHarness(harness)
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    harness.append(log)
    harness.append(log)
    log.high_watermark = 2
    log.advance_log_start_offset(1)
    _run(directory.close())

    failed_start = LogDirectory.open(directory_harness.files, "/data", directory_harness.entropy)
    _run(failed_start.close())

    directory = directory_harness.open()
    log = directory.get(ORDERS[0])
    assert log is not None
    assert directory.had_clean_shutdown
    assert log.log_start_offset == 1
    assert directory.high_watermarks[ORDERS[0]] == 2


def test_unusable_log_can_be_reopened(directory_harness: DirectoryHarness) -> None:
    _run(directory_harness.with_orders().close())
    list_files, fails = directory_harness.files.list_files, True

    def fail(path: str) -> dict[str, int]:
        if fails and path.endswith("orders-1"):
            raise OSError(errno.EMFILE, "Too many open files", path)
        return list_files(path)

    directory_harness.files.list_files = fail  # type: ignore[method-assign]
    directory = directory_harness.open()
    assert (len(directory), list(directory.unusable)) == (2, [ORDERS[1]])
    assert not _run(directory.reopen(ORDERS[1]))
    assert list(directory.unusable) == [ORDERS[1]]
    fails = False
    assert _run(directory.reopen(ORDERS[1]))
    assert (len(directory), directory.unusable) == (3, {})
    with pytest.raises(KeyError):
        _run(directory.reopen(ORDERS[1]))


@pytest.mark.parametrize(
    ("filename", "reason"),
    [("/data", "Read-only"), (None, "Read-only"), ("/data/.lock", "Read-only (/data/.lock)")],
)
def test_unusable_directory_error_has_the_path_once_and_the_failed_file(
    filename: str | None, reason: str
) -> None:
    error = unusable_directory("/data", OSError(errno.EROFS, "Read-only", filename))
    assert str(error) == f"/data cannot be used as a data directory: {reason}"


def test_failed_flush_of_rolled_logs_is_reported_and_retried(
    directory_harness: DirectoryHarness, batch: Callable[..., bytearray]
) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    log.append_as_leader(batch(1), 0, 0)
    log.roll(0)
    directory_harness.files.fail_next_write(errno.ENOSPC, name_end=".snapshot")
    with pytest.raises(StorageError, match="cannot flush"):
        _run(directory.flush_rolled())
    assert _run(directory.flush_rolled()) == 1
    assert _run(directory.flush_rolled()) == 0


def test_checkpoints_of_a_deleted_log_do_not_apply_to_a_new_log(
    directory_harness: DirectoryHarness, harness: Any
) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    harness.append(log, 2)
    log.high_watermark = 2
    log.advance_log_start_offset(1)
    _run(directory.checkpoint_log_start_offsets())
    directory.delete(ORDERS[0], 0)
    log = _run(directory.create(ORDERS[0], directory_harness.config, b"the next topic.."))
    harness.append(log, 2)
    _run(log.flush())
    directory_harness.crash()
    log = directory_harness.open().get(ORDERS[0])
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)


def test_load_counts_the_logs_in_progress(directory_harness: DirectoryHarness) -> None:
    _run(directory_harness.with_orders().close())
    assert len(directory_harness.open().loading.started) == len(ORDERS)


def test_truncation_lowers_the_checkpoints(directory_harness: DirectoryHarness, harness: Any) -> None:
    directory = directory_harness.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    for _ in range(5):
        harness.append(log, 2)
    _run(log.flush())
    _run(directory.checkpoint_recovery_points())
    directory.cleaned_offsets[ORDERS[0]] = 8
    directory.high_watermarks[ORDERS[0]] = 10
    _run(directory.checkpoint_cleaned_offsets())
    log.truncate_to(4, 0)
    assert directory.cleaned_offsets[ORDERS[0]] == 4
    assert directory.high_watermarks[ORDERS[0]] == 4
    directory_harness.files.fail_next_write(errno.ENOSPC, name_end="checkpoint.tmp")
    with pytest.raises(StorageError):
        _run(directory.flush_rolled())
    _run(directory.flush_rolled())
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        assert read_offsets(directory_harness.files, f"/data/{name}")[ORDERS[0]] == 4
