"""The logs of one data directory: start, stop, creation, deletion, checkpoints."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory, unusable_directory
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


class House:
    """A data directory that is opened and closed at will."""

    def __init__(self, bench: Any) -> None:
        self.files: MemoryFileSystem = bench.files
        self.chance = bench.chance
        self.config = LogConfig(segment_bytes=300)

    def open(self) -> LogDirectory:
        directory = LogDirectory.open(self.files, "/data", self.chance)
        _run(directory.load(lambda topic: self.config, 1000, threads=2))
        return directory

    def with_orders(self) -> LogDirectory:
        directory = self.open()
        for topic_partition in ORDERS:
            _run(directory.create(topic_partition, self.config, TOPIC_ID))
        return directory

    def crash(self, seed: int = 0) -> None:
        self.chance.random.seed(seed)
        self.files.crash(self.chance)


@pytest.fixture
def house(bench: Any) -> House:
    return House(bench)


def test_an_empty_directory_has_no_logs(house: House) -> None:
    directory = house.open()
    assert (len(directory), directory.had_clean_shutdown, directory.loading.total) == (0, False, 0)
    assert house.files.list_names("/data") == [".lock"]


def test_a_created_log_is_there_after_a_crash(house: House) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    assert log.topic_id == TOPIC_ID
    house.crash()
    again = house.open()
    assert {log.topic_partition for log in again} == set(ORDERS)
    assert all(log.topic_id == TOPIC_ID and log.log_end_offset == 0 for log in again)


@pytest.mark.parametrize("seed", range(5))
def test_a_data_directory_made_at_the_first_start_survives_a_loss_of_power(house: House, seed: int) -> None:
    directory = LogDirectory.open(house.files, "/srv/odradek/data", house.chance)
    _run(directory.load(lambda topic: house.config, 1000))
    _run(directory.create(ORDERS[0], house.config, TOPIC_ID))
    house.crash(seed)
    again = LogDirectory.open(house.files, "/srv/odradek/data", house.chance)
    _run(again.load(lambda topic: house.config, 1000))
    assert [log.topic_partition for log in again] == [ORDERS[0]]


def test_a_log_is_created_once(house: House) -> None:
    directory = house.with_orders()
    with pytest.raises(StorageError, match="already"):
        _run(directory.create(ORDERS[0], house.config, TOPIC_ID))


def test_two_brokers_do_not_share_a_directory(house: House) -> None:
    house.open()
    with pytest.raises(StorageError, match=r"in use by another broker"):
        house.open()


def test_a_clean_stop_is_marked_and_found_once(house: House, batch: Callable[..., bytearray]) -> None:
    directory = house.with_orders()
    for log in directory:
        for _ in range(5):
            log.append_as_leader(batch(2), 0, 1000)
        log.high_watermark = 8
    _run(directory.close(broker_epoch=7))
    assert house.files.read_whole("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":7}'
    points = house.files.read_whole("/data/recovery-point-offset-checkpoint")
    assert points == b"0\n3\norders 0 10\norders 1 10\norders 2 10\n"
    house.crash()
    again = house.open()
    assert again.had_clean_shutdown
    assert again.loading.recovered == []
    assert {log.log_end_offset for log in again} == {10}
    assert again.high_watermarks == dict.fromkeys(ORDERS, 8)
    assert not house.files.exists("/data/.kafka_cleanshutdown")
    house.crash(1)
    assert not house.open().had_clean_shutdown


def test_a_stop_that_fails_is_not_marked_clean(house: House, batch: Callable[..., bytearray]) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[1])
    assert log is not None
    log.append_as_leader(batch(2), 0, 1000)
    house.files.fail_next_sync(errno.EIO)
    with pytest.raises(StorageError, match="cannot close /data/orders-"):
        _run(directory.close())
    assert not house.files.exists("/data/.kafka_cleanshutdown")
    assert not house.open().had_clean_shutdown


def test_after_an_unclean_stop_only_what_was_not_flushed_is_scanned(
    house: House, batch: Callable[..., bytearray]
) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    for _ in range(10):
        log.append_as_leader(batch(2), 0, 1000)
    assert len(log.segments) > 3
    assert _run(directory.flush_rolled()) == 1
    assert _run(directory.flush_rolled()) == 0
    _run(directory.checkpoint_recovery_points())
    house.crash()
    again = house.open()
    scanned = {where: recovered.scanned_segments for where, recovered in again.loading.recovered}
    assert scanned == dict.fromkeys(ORDERS, 1)
    assert [log.log_end_offset for log in again] == [20, 0, 0]


def test_a_start_offset_survives_once_it_is_checkpointed(
    house: House, batch: Callable[..., bytearray]
) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    log.append_as_leader(batch(5), 0, 1000)
    log.high_watermark = 5
    log.advance_log_start_offset(3)
    _run(log.flush())
    _run(directory.checkpoint_log_start_offsets())
    assert house.files.read_whole("/data/log-start-offset-checkpoint") == b"0\n1\norders 0 3\n"
    house.crash()
    assert [log.log_start_offset for log in house.open()] == [3, 0, 0]


def test_checkpoints_that_cannot_be_read_are_told_and_done_without(house: House) -> None:
    _run(house.with_orders().close())
    house.files.write_whole("/data/recovery-point-offset-checkpoint", b"nonsense\n0\n")
    again = house.open()
    assert len(again) == 3
    assert "recovery-point-offset-checkpoint" in again.problems[0]


def test_a_deleted_log_goes_after_its_delay(house: House, batch: Callable[..., bytearray]) -> None:
    directory = house.with_orders()
    directory.delete(ORDERS[0], 5000)
    assert directory.get(ORDERS[0]) is None
    going = [name for name in house.files.list_names("/data") if name.endswith("-delete")]
    assert len(going) == 1
    _run(directory.create(ORDERS[0], house.config, b"the next topic.."))
    assert _run(directory.remove_due(5000 + 59_999)) == 0
    assert _run(directory.remove_due(5000 + 60_000)) == 1
    names = house.files.list_names("/data")
    assert not [name for name in names if name.endswith("-delete")]
    assert "orders-0" in names


def test_deletions_go_on_after_a_restart(house: House) -> None:
    directory = house.with_orders()
    directory.delete(ORDERS[0], 5000)
    _run(directory.close())
    again = house.open()
    assert len(again) == 2
    assert _run(again.remove_due(1000 + 60_000)) == 1
    assert [name for name in house.files.list_names("/data") if name.endswith("-delete")] == []


def test_other_names_are_left_alone(house: House) -> None:
    house.files.write_whole("/data/meta.properties", b"version=0")
    house.files.make_directories("/data/lost+found")
    house.files.make_directories("/data/old-0.ab-stray")
    directory = house.open()
    assert directory.unknown == [".lock", "lost+found", "meta.properties"]
    assert directory.strays == ["/data/old-0.ab-stray"]
    assert len(directory) == 0


def test_a_log_that_is_being_moved_in_is_kept_apart(house: House) -> None:
    house.files.make_directories("/data/orders-0.ab-future")
    directory = house.open()
    assert directory.get(ORDERS[0]) is None
    assert list(directory.future) == [ORDERS[0]]
    _run(directory.close())


def test_one_log_that_cannot_be_opened_fails_the_start(house: House) -> None:
    _run(house.with_orders().close())

    def refuse(path: str) -> dict[str, int]:
        raise OSError(errno.EIO, "Input/output error", path)

    house.files.list_files = refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="/data/orders-"):
        house.open()


def test_a_failing_disk_is_known_to_the_directory(house: House, batch: Callable[..., bytearray]) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    log.append_as_leader(batch(1), 0, 0)
    house.files.fail_next_write(errno.EIO, name_end=".log")
    with pytest.raises(StorageError):
        log.append_as_leader(batch(1), 0, 0)
    assert directory.failure is log.failure


def test_a_full_disk_at_a_checkpoint_is_not_the_end_of_the_directory(house: House) -> None:
    directory = house.with_orders()
    house.files.fail_next_write(errno.ENOSPC)
    with pytest.raises(StorageError, match="No space"):
        _run(directory.checkpoint_high_watermarks())
    assert directory.failure is None
    _run(directory.checkpoint_high_watermarks())


def test_a_directory_that_was_never_loaded_is_left_as_it_was_found(bench: Any) -> None:
    house = House(bench)
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    bench.append(log)
    bench.append(log)
    log.high_watermark = 2
    log.advance_log_start_offset(1)
    _run(directory.close())

    failed_start = LogDirectory.open(house.files, "/data", house.chance)
    _run(failed_start.close())

    directory = house.open()
    log = directory.get(ORDERS[0])
    assert log is not None
    assert directory.had_clean_shutdown
    assert log.log_start_offset == 1
    assert directory.high_watermarks[ORDERS[0]] == 2


def test_a_log_that_could_not_be_opened_is_opened_later(house: House) -> None:
    _run(house.with_orders().close())
    list_files, is_refused = house.files.list_files, True

    def refuse(path: str) -> dict[str, int]:
        if is_refused and path.endswith("orders-1"):
            raise OSError(errno.EMFILE, "Too many open files", path)
        return list_files(path)

    house.files.list_files = refuse  # type: ignore[method-assign]
    directory = house.open()
    assert (len(directory), list(directory.unusable)) == (2, [ORDERS[1]])
    assert not _run(directory.reopen(ORDERS[1]))
    assert list(directory.unusable) == [ORDERS[1]]
    is_refused = False
    assert _run(directory.reopen(ORDERS[1]))
    assert (len(directory), directory.unusable) == (3, {})
    with pytest.raises(KeyError):
        _run(directory.reopen(ORDERS[1]))


@pytest.mark.parametrize(
    ("filename", "reason"),
    [("/data", "Read-only"), (None, "Read-only"), ("/data/.lock", "Read-only (/data/.lock)")],
)
def test_a_path_that_cannot_be_used_is_named_once_and_the_file_that_failed_too(
    filename: str | None, reason: str
) -> None:
    error = unusable_directory("/data", OSError(errno.EROFS, "Read-only", filename))
    assert str(error) == f"/data cannot be used as a data directory: {reason}"


def test_a_flush_of_sealed_segments_that_fails_is_told_and_tried_again(
    house: House, batch: Callable[..., bytearray]
) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    log.append_as_leader(batch(1), 0, 0)
    log.roll(0)
    house.files.fail_next_write(errno.ENOSPC, name_end=".snapshot")
    with pytest.raises(StorageError, match="cannot flush"):
        _run(directory.flush_rolled())
    assert _run(directory.flush_rolled()) == 1
    assert _run(directory.flush_rolled()) == 0


def test_where_a_deleted_log_began_is_forgotten_before_the_next_of_its_name(house: House, bench: Any) -> None:
    directory = house.with_orders()
    log = directory.get(ORDERS[0])
    assert log is not None
    bench.append(log, 2)
    log.high_watermark = 2
    log.advance_log_start_offset(1)
    _run(directory.checkpoint_log_start_offsets())
    directory.delete(ORDERS[0], 0)
    log = _run(directory.create(ORDERS[0], house.config, b"the next topic.."))
    bench.append(log, 2)
    _run(log.flush())
    house.crash()
    log = house.open().get(ORDERS[0])
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)


def test_a_load_counts_the_logs_it_has_begun(house: House) -> None:
    _run(house.with_orders().close())
    assert len(house.open().loading.begun) == len(ORDERS)
