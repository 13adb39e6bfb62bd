"""A start on a full disk: reads, retention and DeleteRecords work, writes are refused until there is room."""

import errno
import os

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import IsolationLevel
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.store.embedded.database import DiskFull
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

DELETE_RECORDS = 21
SMALL_SEGMENTS = {
    "segment.bytes": "1000",
    "index.interval.bytes": "0",
    "retention.ms": "-1",
    "file.delete.delay.ms": "1000",
}
VALUES = [b"%02d" % number * 100 for number in range(20)]


class Disk:
    """Holds files and store; while it is full, nothing grows."""

    def __init__(self, cluster):
        self.is_full = False
        self._write = cluster.files.write
        self._commit = cluster.ensemble._database.write
        cluster.files.write = self.write
        cluster.ensemble._database = self
        self._database = cluster.ensemble

    path = "/data/odradek-store.sqlite"

    def write(self, path, *args):
        if isinstance(path, dict):
            if self.is_full:
                raise DiskFull(self.path, "cannot be written: database or disk is full")
            self._commit(path, *args)
            return
        inode, position, data = args
        if self.is_full and data:
            inode.change(position, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self._write(path, inode, position, data)

    def close(self):
        """The store in memory goes with the test."""


def start_of(town):
    return town.broker._replicas.find("orders", 0).log.log_start_offset


async def fill(town, **settings):
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    assert await town.create("orders", settings=SMALL_SEGMENTS | changed) == ErrorCode.NONE
    for value in VALUES:
        assert (await town.produce("orders", value)).error_code == 0


@pytest.fixture(params=["stop", "kill"])
def on_full_disk(request, outlive):
    """Fill a topic, end the broker, and run a scenario with one that was started on a full disk."""

    def run(scenario, **settings):
        async def main(cluster, begin):
            disk = Disk(cluster)
            town = await begin()
            await fill(town, **settings)
            await town.broker._replicas.find("orders", 0).log.flush()
            await town.produce("orders", b"last")
            await (town.memory.stop() if request.param == "stop" else town.memory.kill())
            disk.is_full = True
            town = await begin()
            found = await town.values("orders")
            assert found in ([*VALUES, b"last"], VALUES)  # a loss of power may have taken the last
            await scenario(town, disk, found)
            disk.is_full = False
            await town.memory.stop()
            town = await begin()
            assert (await town.values("orders", start_of(town)))[-1:] in ([], [b"kept"], found[-1:])
            await town.memory.stop()

        outlive(main)

    return run


def test_reads_go_on_and_writes_are_refused_until_there_is_room(on_full_disk):
    async def scenario(town, disk, found):
        refused = await town.produce("orders", b"refused")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await town.create("more") == ErrorCode.KAFKA_STORAGE_ERROR
        await town.cluster.clock.sleep_ms(120_000)
        assert await town.values("orders") == found
        disk.is_full = False
        assert (await town.produce("orders", b"kept")).error_code == 0
        assert await town.values("orders") == [*found, b"kept"]
        assert await town.create("more") == ErrorCode.NONE
        assert (await town.produce("more", b"kept")).error_code == 0

    on_full_disk(scenario)


def test_old_segments_are_deleted(on_full_disk):
    async def scenario(town, disk, found):
        names = [name for name in town.cluster.files.list_names("/data/orders-0") if name.endswith(".log")]
        await town.cluster.clock.sleep_ms(700_000)
        left = [name for name in town.cluster.files.list_names("/data/orders-0") if name.endswith(".log")]
        assert len(left) < len(names)
        assert start_of(town) > 0

    on_full_disk(scenario, retention_bytes="1500")


def test_a_log_of_which_all_is_old_is_emptied(on_full_disk):
    async def scenario(town, disk, found):
        await town.cluster.clock.sleep_ms(700_000)
        assert start_of(town) == len(found)
        assert [
            name for name in town.cluster.files.list_names("/data/orders-0") if name.endswith(".log")
        ] == [f"{len(found):020d}.log"]

    on_full_disk(scenario, retention_ms="1000")


def test_records_can_be_deleted(on_full_disk):
    async def scenario(town, disk, found):
        asked = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 10)])
        response = await town.ask(DELETE_RECORDS, 2, DeleteRecordsRequest([asked], 1000))
        assert response.topics[0].partitions[0].error_code == 0
        assert response.topics[0].partitions[0].low_watermark == 10
        await town.cluster.clock.sleep_ms(700_000)
        assert not town.cluster.files.exists(f"/data/orders-0/{0:020d}.log")
        assert await town.values("orders", 10) == found[10:]

    on_full_disk(scenario)


def test_aborted_transactions_stay_hidden_from_readers_of_committed_records(outlive, make_batch):
    """Their index has no room on the disk; a flush that writes it comes before the next start goes by it."""

    async def aborted(town):
        entry = await town.fetch("orders", isolation_level=IsolationLevel.READ_COMMITTED)
        return [(one.producer_id, one.first_offset) for one in entry.aborted_transactions or ()]

    async def main(cluster, begin):
        disk = Disk(cluster)
        town = await begin()
        await town.create("orders", settings=SMALL_SEGMENTS)
        partition = town.broker._replicas.find("orders", 0)
        for number in range(6):
            of = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
            partition.append(make_batch(VALUES[number], **of), -1, 9, 1000)
            partition.append_end_marker(EndTransactionMarker(ControlRecordType.ABORT, 0), 7, 0, 1000)
        await partition.log.flush()
        before = await aborted(town)
        assert len(before) > 1
        await town.memory.kill()
        disk.is_full = True
        town = await begin()
        log = town.broker._replicas.find("orders", 0).log
        assert any(segment.has_unwritten for segment in log.segments)
        log.segments[0].context.opened.let_all_go()
        assert await aborted(town) == before
        await town.cluster.clock.sleep_ms(60_000)
        disk.is_full = False
        await log.flush()
        assert not any(segment.has_unwritten for segment in log.segments)
        await town.memory.stop()
        town = await begin()
        assert await aborted(town) == before
        await town.memory.stop()

    outlive(main)
