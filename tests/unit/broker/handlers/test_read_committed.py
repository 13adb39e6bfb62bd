"""Readers of committed records: what they may see, what they are told of, and when they are woken."""

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


class Author:
    """A transactional producer whose coordinator is elsewhere, and that coordinator."""

    def __init__(self, town, producer_id):
        self.town = town
        self.producer_id = producer_id
        self.sequence = 0

    async def write(self, *values, transactional=True):
        entry = await self.town.produce(
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
        """What a coordinator elsewhere would send; give the code."""
        marker = WritableTxnMarker(
            self.producer_id,
            0,
            kind is ControlRecordType.COMMIT,
            [WritableTxnMarkerTopic("orders", [0])],
            coordinator_epoch,
        )
        response = await self.town.ask(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
        return response.markers[0].topics[0].partitions[0].error_code


def told(entry):
    return [(one.producer_id, one.first_offset) for one in entry.aborted_transactions or ()]


async def latest(town, isolation):
    part = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic("orders", [part])]
    )
    response = await town.ask(LIST_OFFSETS, 7, request)
    return response.topics[0].partitions[0].offset


def test_they_stop_where_a_transaction_is_open(play, read_records):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"before")
        author = Author(town, 7)
        await author.write(b"in", b"doubt")
        await town.produce("orders", b"behind")
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        assert [one.value for one in read_records(entry.records)] == [b"before"]
        assert (entry.high_watermark, entry.last_stable_offset) == (4, 1)
        assert told(entry) == []
        entry = await town.fetch("orders", 1, isolation_level=COMMITTED)
        assert bytes(entry.records) == b""
        uncommitted = await town.fetch("orders")
        assert len(read_records(uncommitted.records)) == 4
        assert uncommitted.aborted_transactions is None
        assert (await latest(town, COMMITTED), await latest(town, 0)) == (1, 4)
        await author.end(ControlRecordType.COMMIT)
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        values = [one.value for one in read_records(entry.records)]
        assert values == [b"before", b"in", b"doubt", b"behind"]
        assert (entry.last_stable_offset, told(entry)) == (5, [])
        assert await latest(town, COMMITTED) == 5

    play(scenario, UNVERIFIED)


def test_they_are_told_of_aborted_transactions(play):
    async def scenario(town):
        await town.create("orders", settings={"segment.bytes": "300"})
        first, second = Author(town, 7), Author(town, 8)
        await first.write(b"a")
        await second.write(b"b")
        await first.end(ControlRecordType.ABORT)
        await second.write(b"c")
        await second.end(ControlRecordType.ABORT)
        await first.write(b"d")
        await first.end(ControlRecordType.COMMIT)
        assert len(town.broker._replicas.find("orders", 0).log.segments) > 1
        for fetch_offset, aborted in ((0, [(7, 0), (8, 1)]), (3, [(8, 1)]), (5, [])):
            entry = await town.fetch("orders", fetch_offset, isolation_level=COMMITTED)
            assert bytes(entry.records.read() if hasattr(entry.records, "read") else entry.records)
            assert told(entry) == aborted

    play(scenario, UNVERIFIED)


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_one_that_waits_is_woken_by_the_end_of_the_transaction(play, read_records, kind):
    async def scenario(town):
        await town.create("orders")
        author = Author(town, 7)
        await author.write(b"in doubt")
        other = await town.memory.connect()
        task = other.begin(
            FETCH, 17, town.fetch_request("orders", max_wait_ms=10_000, isolation_level=COMMITTED)
        )
        await asyncio.sleep(1)
        await town.produce("orders", b"behind")
        await asyncio.sleep(1)
        assert not task.done(), "what is behind an open transaction is not for this reader"
        await author.end(kind)
        await asyncio.sleep(0.001)
        assert task.done(), "woken at once, not at its deadline"
        [entry] = task.result().responses[0].partitions
        assert [one.value for one in read_records(entry.records)] == [b"in doubt", b"behind"]
        assert told(entry) == ([] if kind is ControlRecordType.COMMIT else [(7, 0)])

    play(scenario, UNVERIFIED)


def test_a_producer_may_not_write_outside_of_its_transaction(play):
    async def scenario(town):
        await town.create("orders")
        author = Author(town, 7)
        await author.write(b"in")
        entry = await author.write(b"out", transactional=False)
        assert entry.error_code == ErrorCode.INVALID_TXN_STATE
        await author.end(ControlRecordType.COMMIT)
        assert (await author.write(b"out", transactional=False)).base_offset == 2

    play(scenario, UNVERIFIED)


def test_a_coordinator_that_was_replaced_ends_nothing(play):
    async def scenario(town):
        await town.create("orders")
        author = Author(town, 7)
        await author.write(b"a")
        await author.end(ControlRecordType.COMMIT, coordinator_epoch=4)
        await author.write(b"b")
        code = await author.end(ControlRecordType.COMMIT, coordinator_epoch=3)
        assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == 2

    play(scenario, UNVERIFIED)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_transactions_and_producers_outlive_the_broker(outlive, read_records, end):
    async def scenario(cluster, begin):
        town = await begin({**UNVERIFIED, "log.flush.interval.messages": "1"})
        await town.create("orders")
        first, second = Author(town, 7), Author(town, 8)
        await first.write(b"a")
        await first.end(ControlRecordType.ABORT)
        await second.write(b"b")
        await getattr(town.memory, end)()
        again = await begin(UNVERIFIED)
        for author in (first, second):
            author.town = again
        await asyncio.sleep(20)
        entry = await again.fetch("orders", isolation_level=COMMITTED)
        assert (entry.last_stable_offset, told(entry)) == (2, [(7, 0)])
        await second.write(b"c")
        await second.end(ControlRecordType.COMMIT)
        entry = await again.fetch("orders", 2, isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark
        assert b"c" in [one.value for one in read_records(entry.records)]
        await again.memory.stop()

    outlive(scenario)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_repeated_batch_is_answered_as_before_though_much_lies_behind_it(outlive, end):
    async def scenario(cluster, begin):
        town = await begin()
        await town.create("orders", settings={"segment.bytes": str(1 << 20), "flush.messages": "1"})
        how = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        assert (await town.produce("orders", b"a", b"b", **how)).base_offset == 0
        for _ in range(12):
            await town.produce("orders", bytes(900_000))
        await getattr(town.memory, end)()
        again = await begin()
        await asyncio.sleep(20)
        entry = await again.produce("orders", b"a", b"b", **how)
        assert (entry.error_code, entry.base_offset) == (0, 0)
        assert (await again.fetch("orders", 13)).high_watermark == 14
        await again.memory.stop()

    outlive(scenario)
