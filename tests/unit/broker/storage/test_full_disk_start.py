"""Start on a full disk: reads, retention and DeleteRecords work, writes fail until there is space."""

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
    """Disk of files and store; while full, no file can grow."""

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
        """Keep the in-memory store for the next broker."""


def start_of(harness):
    return harness.broker._replica_manager.get_partition("orders", 0).log.log_start_offset


async def fill(harness, **settings):
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    assert await harness.create("orders", settings=SMALL_SEGMENTS | changed) == ErrorCode.NONE
    for value in VALUES:
        assert (await harness.produce("orders", value)).error_code == 0


@pytest.fixture(params=["stop", "kill"])
def on_full_disk(request, run_with_restarts):
    """Fill a topic, stop the broker, and run a scenario with one started on a full disk."""

    def run(scenario, **settings):
        async def main(cluster, start_broker):
            disk = Disk(cluster)
            harness = await start_broker()
            await fill(harness, **settings)
            await harness.broker._replica_manager.get_partition("orders", 0).log.flush()
            await harness.produce("orders", b"last")
            await (harness.memory_broker.stop() if request.param == "stop" else harness.memory_broker.kill())
            disk.is_full = True
            harness = await start_broker()
            result = await harness.values("orders")
            assert result in ([*VALUES, b"last"], VALUES)  # a power loss may have taken the last
            await scenario(harness, disk, result)
            disk.is_full = False
            await harness.memory_broker.stop()
            harness = await start_broker()
            assert (await harness.values("orders", start_of(harness)))[-1:] in ([], [b"kept"], result[-1:])
            await harness.memory_broker.stop()

        run_with_restarts(main)

    return run


def test_reads_succeed_and_writes_fail_until_there_is_disk_space(on_full_disk):
    async def scenario(harness, disk, result):
        rejected = await harness.produce("orders", b"refused")
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await harness.create("more") == ErrorCode.KAFKA_STORAGE_ERROR
        await harness.cluster.clock.sleep_ms(120_000)
        assert await harness.values("orders") == result
        disk.is_full = False
        assert (await harness.produce("orders", b"kept")).error_code == 0
        assert await harness.values("orders") == [*result, b"kept"]
        assert await harness.create("more") == ErrorCode.NONE
        assert (await harness.produce("more", b"kept")).error_code == 0

    on_full_disk(scenario)


def test_retention_deletes_old_segments_on_a_full_disk(on_full_disk):
    async def scenario(harness, disk, result):
        names = [name for name in harness.cluster.files.list_names("/data/orders-0") if name.endswith(".log")]
        await harness.cluster.clock.sleep_ms(700_000)
        left = [name for name in harness.cluster.files.list_names("/data/orders-0") if name.endswith(".log")]
        assert len(left) < len(names)
        assert start_of(harness) > 0

    on_full_disk(scenario, retention_bytes="1500")


def test_retention_empties_a_log_on_a_full_disk(on_full_disk):
    async def scenario(harness, disk, result):
        await harness.cluster.clock.sleep_ms(700_000)
        assert start_of(harness) == len(result)
        assert [
            name for name in harness.cluster.files.list_names("/data/orders-0") if name.endswith(".log")
        ] == [f"{len(result):020d}.log"]

    on_full_disk(scenario, retention_ms="1000")


def test_delete_records_succeeds_on_a_full_disk(on_full_disk):
    async def scenario(harness, disk, result):
        requested = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 10)])
        response = await harness.request(DELETE_RECORDS, 2, DeleteRecordsRequest([requested], 1000))
        assert response.topics[0].partitions[0].error_code == 0
        assert response.topics[0].partitions[0].low_watermark == 10
        await harness.cluster.clock.sleep_ms(700_000)
        assert not harness.cluster.files.exists(f"/data/orders-0/{0:020d}.log")
        assert await harness.values("orders", 10) == result[10:]

    on_full_disk(scenario)


def test_aborted_transactions_stay_hidden_with_read_committed(run_with_restarts, make_batch):
    """The transaction index has no space; it is flushed before the next start relies on it."""

    async def aborted(harness):
        entry = await harness.fetch("orders", isolation_level=IsolationLevel.READ_COMMITTED)
        return [
            (transaction.producer_id, transaction.first_offset)
            for transaction in entry.aborted_transactions or ()
        ]

    async def main(cluster, start_broker):
        disk = Disk(cluster)
        harness = await start_broker()
        await harness.create("orders", settings=SMALL_SEGMENTS)
        partition = harness.broker._replica_manager.get_partition("orders", 0)
        for number in range(6):
            of = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
            partition.append(make_batch(VALUES[number], **of), -1, 9, 1000)
            partition.append_end_marker(EndTransactionMarker(ControlRecordType.ABORT, 0), 7, 0, 1000)
        await partition.log.flush()
        before = await aborted(harness)
        assert len(before) > 1
        await harness.memory_broker.kill()
        disk.is_full = True
        harness = await start_broker()
        log = harness.broker._replica_manager.get_partition("orders", 0).log
        assert any(segment.has_unwritten for segment in log.segments)
        log.segments[0].context.opened.release_all()
        assert await aborted(harness) == before
        await harness.cluster.clock.sleep_ms(60_000)
        disk.is_full = False
        await log.flush()
        assert not any(segment.has_unwritten for segment in log.segments)
        await harness.memory_broker.stop()
        harness = await start_broker()
        assert await aborted(harness) == before
        await harness.memory_broker.stop()

    run_with_restarts(main)
