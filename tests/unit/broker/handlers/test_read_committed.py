"""read_committed fetches: last stable offset, aborted transactions, wake-up."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.records.control_records import ControlRecordType
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FETCH, LIST_OFFSETS, WRITE_TXN_MARKERS = 1, 2, 27
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
COMMITTED = 1
LATEST = -1


class TransactionalWriter:
    """Transactional producer and its coordinator on another broker."""

    def __init__(self, harness, producer_id):
        self.harness = harness
        self.producer_id = producer_id
        self.sequence = 0

    async def write(self, *values, transactional=True):
        entry = await self.harness.produce(
            "orders",
            *values,
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self.sequence,
            transactional=transactional,
            transactional_id="ledger" if transactional else None,
        )
        if not entry.error_code:
            self.sequence += len(values)
        return entry

    async def end(self, kind, coordinator_epoch=0):
        """Send the marker of a remote coordinator; return the error code."""
        marker = WritableTxnMarker(
            self.producer_id,
            0,
            kind is ControlRecordType.COMMIT,
            [WritableTxnMarkerTopic("orders", [0])],
            coordinator_epoch,
        )
        response = await self.harness.request(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
        return response.markers[0].topics[0].partitions[0].error_code


def aborted_transactions(entry):
    return [
        (transaction.producer_id, transaction.first_offset)
        for transaction in entry.aborted_transactions or ()
    ]


async def latest(harness, isolation):
    part = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic("orders", [part])]
    )
    response = await harness.request(LIST_OFFSETS, 7, request)
    return response.topics[0].partitions[0].offset


def test_read_committed_stops_at_an_open_transaction(run_scenario, read_records):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"before")
        writer = TransactionalWriter(harness, 7)
        await writer.write(b"in", b"doubt")
        await harness.produce("orders", b"behind")
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert [record.value for record in read_records(entry.records)] == [b"before"]
        assert (entry.high_watermark, entry.last_stable_offset) == (4, 1)
        assert aborted_transactions(entry) == []
        entry = await harness.fetch("orders", 1, isolation_level=COMMITTED)
        assert bytes(entry.records) == b""
        uncommitted = await harness.fetch("orders")
        assert len(read_records(uncommitted.records)) == 4
        assert uncommitted.aborted_transactions is None
        assert (await latest(harness, COMMITTED), await latest(harness, 0)) == (1, 4)
        await writer.end(ControlRecordType.COMMIT)
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        values = [record.value for record in read_records(entry.records)]
        assert values == [b"before", b"in", b"doubt", b"behind"]
        assert (entry.last_stable_offset, aborted_transactions(entry)) == (5, [])
        assert await latest(harness, COMMITTED) == 5

    run_scenario(scenario, UNVERIFIED)


def test_read_committed_returns_aborted_transactions(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "300"})
        first, second = TransactionalWriter(harness, 7), TransactionalWriter(harness, 8)
        await first.write(b"a")
        await second.write(b"b")
        await first.end(ControlRecordType.ABORT)
        await second.write(b"c")
        await second.end(ControlRecordType.ABORT)
        await first.write(b"d")
        await first.end(ControlRecordType.COMMIT)
        assert len(harness.broker._replica_manager.get_partition("orders", 0).log.segments) > 1
        for fetch_offset, aborted in ((0, [(7, 0), (8, 1)]), (3, [(8, 1)]), (5, [])):
            entry = await harness.fetch("orders", fetch_offset, isolation_level=COMMITTED)
            assert bytes(entry.records.read() if hasattr(entry.records, "read") else entry.records)
            assert aborted_transactions(entry) == aborted

    run_scenario(scenario, UNVERIFIED)


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_waiting_read_committed_fetch_completes_at_the_end_of_the_transaction(
    run_scenario, read_records, kind
):
    async def scenario(harness):
        await harness.create("orders")
        writer = TransactionalWriter(harness, 7)
        await writer.write(b"in doubt")
        other = await harness.memory_broker.connect()
        task = other.send(
            FETCH, 17, harness.fetch_request("orders", max_wait_ms=10_000, isolation_level=COMMITTED)
        )
        await asyncio.sleep(1)
        await harness.produce("orders", b"behind")
        await asyncio.sleep(1)
        assert not task.done(), "records after an open transaction are not readable"
        await writer.end(kind)
        await asyncio.sleep(0.001)
        assert task.done(), "woken at once, not at its deadline"
        [entry] = task.result().responses[0].partitions
        assert [record.value for record in read_records(entry.records)] == [b"in doubt", b"behind"]
        assert aborted_transactions(entry) == ([] if kind is ControlRecordType.COMMIT else [(7, 0)])

    run_scenario(scenario, UNVERIFIED)


def test_non_transactional_write_during_a_transaction_is_rejected(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        writer = TransactionalWriter(harness, 7)
        await writer.write(b"in")
        entry = await writer.write(b"out", transactional=False)
        assert entry.error_code == ErrorCode.INVALID_TXN_STATE
        await writer.end(ControlRecordType.COMMIT)
        assert (await writer.write(b"out", transactional=False)).base_offset == 2

    run_scenario(scenario, UNVERIFIED)


def test_marker_of_an_old_coordinator_epoch_is_rejected(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        writer = TransactionalWriter(harness, 7)
        await writer.write(b"a")
        await writer.end(ControlRecordType.COMMIT, coordinator_epoch=4)
        await writer.write(b"b")
        code = await writer.end(ControlRecordType.COMMIT, coordinator_epoch=3)
        assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == 2

    run_scenario(scenario, UNVERIFIED)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_transactions_and_producer_state_survive_a_restart(run_with_restarts, read_records, end):
    async def scenario(cluster, start_broker):
        harness = await start_broker({**UNVERIFIED, "log.flush.interval.messages": "1"})
        await harness.create("orders")
        first, second = TransactionalWriter(harness, 7), TransactionalWriter(harness, 8)
        await first.write(b"a")
        await first.end(ControlRecordType.ABORT)
        await second.write(b"b")
        await getattr(harness.memory_broker, end)()
        harness = await start_broker(UNVERIFIED)
        for writer in (first, second):
            writer.harness = harness
        await asyncio.sleep(20)
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert (entry.last_stable_offset, aborted_transactions(entry)) == (2, [(7, 0)])
        await second.write(b"c")
        await second.end(ControlRecordType.COMMIT)
        entry = await harness.fetch("orders", 2, isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark
        assert b"c" in [record.value for record in read_records(entry.records)]
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_duplicate_of_an_older_batch_gets_its_original_offset(run_with_restarts, end):
    async def scenario(cluster, start_broker):
        harness = await start_broker()
        await harness.create("orders", settings={"segment.bytes": str(1 << 20), "flush.messages": "1"})
        options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        assert (await harness.produce("orders", b"a", b"b", **options)).base_offset == 0
        for _ in range(12):
            await harness.produce("orders", bytes(900_000))
        await getattr(harness.memory_broker, end)()
        harness = await start_broker()
        await asyncio.sleep(20)
        entry = await harness.produce("orders", b"a", b"b", **options)
        assert (entry.error_code, entry.base_offset) == (0, 0)
        assert (await harness.fetch("orders", 13)).high_watermark == 14
        await harness.memory_broker.stop()

    run_with_restarts(scenario)
