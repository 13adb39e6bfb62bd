"""Files of one log that cannot be used: that partition pays for it, the others of its directory do not."""

import errno
import os

import pytest

from odradek.model.errors import ErrorCode

CLEAN_STOP = "/data/.kafka_cleanshutdown"
LOG = "00000000000000000000.log"


class ReadOnly:
    """Lets some files be read and not written."""

    def __init__(self, files, end):
        self.end = end
        self._open = files.open
        files.open = self.open

    def open(self, path, *, create=False, writable=True):
        if self.end and writable and path.endswith(self.end):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return self._open(path, create=create, writable=writable)


@pytest.fixture
def restart(outlive):
    """Run a scenario before a clean stop, spoil the files, and run another after it."""

    def run(before, spoil, after, *, kill=False):
        async def scenario(cluster, begin):
            town = await begin()
            await before(town)
            await (town.memory.kill() if kill else town.memory.stop())
            spoil(town.cluster.files)
            town = await begin()
            await after(town)
            await town.memory.stop()

        outlive(scenario)

    return run


async def _fill(town):
    assert await town.create("orders", 3) == ErrorCode.NONE
    for number in range(3):
        assert (await town.produce("orders", b"x", partition=number)).error_code == 0


async def _codes(town):
    return [(await town.produce("orders", b"y", partition=number)).error_code for number in range(3)]


def test_an_empty_partition_metadata_is_written_anew(restart):
    path = "/data/orders-1/partition.metadata"

    async def after(town):
        assert await _codes(town) == [0, 0, 0]
        assert town.cluster.files.read_whole(path).startswith(b"version: 0\ntopic_id: ")

    restart(_fill, lambda files: files.write_whole(path, b""), after)


@pytest.mark.parametrize("content", [b"\xff\x00nonsense", b"version: 7\ntopic_id: x", b"version: 0\n"])
def test_a_partition_metadata_that_says_nothing_takes_its_partition_offline(restart, content):
    async def after(town):
        assert await _codes(town) == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]

    restart(_fill, lambda files: files.write_whole("/data/orders-1/partition.metadata", content), after)


def test_a_log_that_cannot_be_written_refuses_appends_until_it_can(restart):
    async def after(town):
        guard = ReadOnly(town.cluster.files, f"orders-1/{LOG}")
        assert await _codes(town) == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert await town.values("orders", partition=1) == [b"x"]
        await town.cluster.clock.sleep_ms(600_000)
        guard.end = None
        assert await _codes(town) == [0, 0, 0]

    restart(_fill, lambda files: None, after)


def test_a_log_that_cannot_be_mended_takes_its_partition_offline_until_it_can(restart):
    guards = []

    def spoil(files):
        file = files.open(f"/data/orders-1/{LOG}")
        file.append(b"torn")
        file.sync()
        files.remove(CLEAN_STOP)
        guards.append(ReadOnly(files, f"orders-1/{LOG}"))

    async def after(town):
        assert await _codes(town) == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert town.broker.failures == []
        guards[0].end = None
        await town.cluster.clock.sleep_ms(10_000)
        assert await _codes(town) == [0, 0, 0]
        assert await town.values("orders", partition=1) == [b"x", b"y"]

    restart(_fill, spoil, after)


def test_what_is_known_of_a_log_that_cannot_be_opened_outlives_the_next_stop(outlive):
    async def scenario(cluster, begin):
        town = await begin()
        await _fill(town)
        for _ in range(3):
            await town.produce("orders", b"x", partition=1)
        town.broker._replicas.find("orders", 1).delete_records_on_leader(2)
        await town.memory.stop()
        files = town.cluster.files
        file = files.open(f"/data/orders-1/{LOG}")
        file.append(b"torn")
        file.sync()
        guard = ReadOnly(files, f"orders-1/{LOG}")
        town = await begin()
        assert (await town.produce("orders", b"y", partition=1)).error_code != 0
        await town.memory.stop()
        assert not files.exists(CLEAN_STOP)  # it would say that the log was left as it should be
        guard.end = None
        town = await begin()
        assert (await town.fetch("orders", 2, partition=1)).log_start_offset == 2
        assert (await town.produce("orders", b"y", partition=1)).base_offset == 4
        await town.memory.stop()

    outlive(scenario)


def test_a_directory_in_the_place_of_a_snapshot_does_not_spoil_a_clean_stop(outlive):
    async def scenario(cluster, begin):
        town = await begin()
        await town.create("orders", settings={"segment.bytes": "200", "retention.bytes": "0"})
        for sequence in range(6):
            await town.produce("orders", bytes(100), producer_id=5, producer_epoch=0, base_sequence=sequence)
        files = town.cluster.files
        for offset in range(8):
            path = f"/data/orders-0/{offset:020d}.snapshot"
            if not files.exists(path):
                files.make_directories(path)
        await town.cluster.clock.sleep_ms(600_000)
        assert (await town.produce("orders", b"x")).error_code == 0
        await town.memory.stop()
        assert files.exists(CLEAN_STOP)

    outlive(scenario)
