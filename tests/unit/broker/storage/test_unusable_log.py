"""Unusable files of one log: only its partition is affected."""

import errno
import os

import pytest

from odradek.model.errors import ErrorCode
from odradek.replication.delete_records import delete_records_on_leader

CLEAN_STOP = "/data/.kafka_cleanshutdown"
LOG = "00000000000000000000.log"


class ReadOnly:
    """Makes some files read-only."""

    def __init__(self, files, end):
        self.end = end
        self._open = files.open
        files.open = self.open

    def open(self, path, *, create=False, writable=True):
        if self.end and writable and path.endswith(self.end):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return self._open(path, create=create, writable=writable)


@pytest.fixture
def restart(run_with_restarts):
    """Run a scenario, stop cleanly, damage the files, and run another scenario after a restart."""

    def run(before, spoil, after, *, kill=False):
        async def scenario(cluster, start_broker):
            harness = await start_broker()
            await before(harness)
            await (harness.memory_broker.kill() if kill else harness.memory_broker.stop())
            spoil(harness.cluster.files)
            harness = await start_broker()
            await after(harness)
            await harness.memory_broker.stop()

        run_with_restarts(scenario)

    return run


async def _fill(harness):
    assert await harness.create("orders", 3) == ErrorCode.NONE
    for number in range(3):
        assert (await harness.produce("orders", b"x", partition=number)).error_code == 0


async def _codes(harness):
    return [(await harness.produce("orders", b"y", partition=number)).error_code for number in range(3)]


def test_empty_partition_metadata_file_is_rewritten(restart):
    path = "/data/orders-1/partition.metadata"

    async def after(harness):
        assert await _codes(harness) == [0, 0, 0]
        assert harness.cluster.files.read_whole(path).startswith(b"version: 0\ntopic_id: ")

    restart(_fill, lambda files: files.write_whole(path, b""), after)


@pytest.mark.parametrize("content", [b"\xff\x00nonsense", b"version: 7\ntopic_id: x", b"version: 0\n"])
def test_corrupt_partition_metadata_file_takes_the_partition_offline(restart, content):
    async def after(harness):
        assert await _codes(harness) == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]

    restart(_fill, lambda files: files.write_whole("/data/orders-1/partition.metadata", content), after)


def test_read_only_log_rejects_appends_until_writable(restart):
    async def after(harness):
        guard = ReadOnly(harness.cluster.files, f"orders-1/{LOG}")
        assert await _codes(harness) == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert await harness.values("orders", partition=1) == [b"x"]
        await harness.cluster.clock.sleep_ms(600_000)
        guard.end = None
        assert await _codes(harness) == [0, 0, 0]

    restart(_fill, lambda files: None, after)


def test_unrecoverable_log_takes_the_partition_offline_until_repaired(restart):
    guards = []

    def spoil(files):
        file = files.open(f"/data/orders-1/{LOG}")
        file.append(b"torn")
        file.sync()
        files.remove(CLEAN_STOP)
        guards.append(ReadOnly(files, f"orders-1/{LOG}"))

    async def after(harness):
        assert await _codes(harness) == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert harness.broker.failures == []
        guards[0].end = None
        await harness.cluster.clock.sleep_ms(10_000)
        assert await _codes(harness) == [0, 0, 0]
        assert await harness.values("orders", partition=1) == [b"x", b"y"]

    restart(_fill, spoil, after)


def test_checkpoints_of_an_unusable_log_survive_a_clean_stop(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker()
        await _fill(harness)
        for _ in range(3):
            await harness.produce("orders", b"x", partition=1)
        delete_records_on_leader(harness.broker._replica_manager.get_partition("orders", 1), 2)
        await harness.memory_broker.stop()
        files = harness.cluster.files
        file = files.open(f"/data/orders-1/{LOG}")
        file.append(b"torn")
        file.sync()
        guard = ReadOnly(files, f"orders-1/{LOG}")
        harness = await start_broker()
        assert (await harness.produce("orders", b"y", partition=1)).error_code != 0
        await harness.memory_broker.stop()
        assert not files.exists(CLEAN_STOP)  # it would claim that the log needs no recovery
        guard.end = None
        harness = await start_broker()
        assert (await harness.fetch("orders", 2, partition=1)).log_start_offset == 2
        assert (await harness.produce("orders", b"y", partition=1)).base_offset == 4
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_directory_in_place_of_a_snapshot_file_does_not_fail_a_clean_stop(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker()
        await harness.create("orders", settings={"segment.bytes": "200", "retention.bytes": "0"})
        for sequence in range(6):
            await harness.produce(
                "orders", bytes(100), producer_id=5, producer_epoch=0, base_sequence=sequence
            )
        files = harness.cluster.files
        for offset in range(8):
            path = f"/data/orders-0/{offset:020d}.snapshot"
            if not files.exists(path):
                files.make_directories(path)
        await harness.cluster.clock.sleep_ms(600_000)
        assert (await harness.produce("orders", b"x")).error_code == 0
        await harness.memory_broker.stop()
        assert files.exists(CLEAN_STOP)

    run_with_restarts(scenario)
