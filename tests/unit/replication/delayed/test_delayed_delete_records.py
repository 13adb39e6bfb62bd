"""DeleteRecords waits for the low watermark of all live replicas."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.replication.delayed.delayed_delete_records import (
    DelayedDeleteRecords,
    DeleteRecordsPartitionStatus,
)
from odradek.replication.delete_records import delete_records_on_leader
from odradek.wire.messages.delete_records import DeleteRecordsPartitionResult
from odradek.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest


class PendingDelete:
    """A DeleteRecords request for one partition."""

    def __init__(self, fixture, partition, offset, timeout_ms=60_000):
        self.completions = 0
        requested, low_watermark = delete_records_on_leader(partition, offset)
        assert low_watermark < requested
        self.entry = DeleteRecordsPartitionResult(0, low_watermark)
        status = DeleteRecordsPartitionStatus(partition, requested, self.entry)
        fixture.replicas.delay_delete_records(
            DelayedDeleteRecords([status], self._complete), [partition], timeout_ms
        )

    def _complete(self):
        self.completions += 1

    @property
    def result(self):
        return self.completions, self.entry.error_code, self.entry.low_watermark


async def lead(fixture, leader_and_isr, make_batch):
    partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2, 3)))
    for _ in range(4):
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
    for broker_id in (2, 3):
        fixture.replicas.record_follower_fetch(partition, broker_id, 4, 0)
    assert partition.log.high_watermark == 4
    return partition


def test_delete_completes_when_all_replicas_have_deleted(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await lead(fixture, leader_and_isr, make_batch)
        delete = PendingDelete(fixture, partition, 3)
        assert delete.result == (0, 0, 0)
        fixture.replicas.record_follower_fetch(partition, 2, 4, 3)
        fixture.replicas.record_follower_fetch(partition, 3, 4, 2)
        assert delete.completions == 0
        fixture.replicas.record_follower_fetch(partition, 3, 4, 3)
        assert delete.result == (1, 0, 3)

    run_scenario(scenario)


def test_dead_replicas_are_not_waited_for(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await lead(fixture, leader_and_isr, make_batch)
        delete = PendingDelete(fixture, partition, 3)
        fixture.replicas.record_follower_fetch(partition, 2, 4, 3)
        assert delete.completions == 0
        live = [UpdateMetadataBroker(number) for number in (1, 2)]
        await fixture.replicas.update_metadata(UpdateMetadataRequest(controller_epoch=1, live_brokers=live))
        assert delete.result == (1, 0, 3)

    run_scenario(scenario)


def test_delete_times_out(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await lead(fixture, leader_and_isr, make_batch)
        delete = PendingDelete(fixture, partition, 3, timeout_ms=500)
        fixture.advance_time(500)
        assert delete.result == (1, ErrorCode.REQUEST_TIMED_OUT, 0)
        assert partition.log.log_start_offset == 3, "the records are deleted here all the same"

    run_scenario(scenario)


def test_delete_fails_when_leadership_is_lost(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await lead(fixture, leader_and_isr, make_batch)
        delete = PendingDelete(fixture, partition, 3)
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2, 3)))
        assert delete.result == (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    run_scenario(scenario)


def test_delete_completes_at_a_shutdown(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await lead(fixture, leader_and_isr, make_batch)
        delete = PendingDelete(fixture, partition, 3)
        fixture.replicas.complete_all_delayed()
        assert delete.result == (1, ErrorCode.REQUEST_TIMED_OUT, 0)

    run_scenario(scenario)
