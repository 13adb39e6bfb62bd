"""ISR changes of a replica manager: expansion after fetches, periodic shrink, results, min ISR."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ACKS_ALL, ACKS_LEADER
from odradek.replication.delayed.delayed_produce import DelayedProduce, ProducePartitionStatus
from odradek.replication.leader import IsrChange, IsrChangeResult
from odradek.wire.messages.produce import PartitionProduceResponse

ORDERS = TopicPartition("orders", 0)
LAG_MS = 10_000


class SubmittedChanges:
    """Keeps submitted changes, as an AlterPartitionManager before it sends."""

    def __init__(self) -> None:
        self.changes: list[IsrChange] = []
        self.callbacks: list[Callable[[IsrChangeResult], None]] = []

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        change: IsrChange,
        on_result: Callable[[IsrChangeResult], None],
    ) -> None:
        assert topic_partition == ORDERS
        self.changes.append(change)
        self.callbacks.append(on_result)

    @property
    def isrs(self) -> list[tuple[int, ...]]:
        return [change.isr for change in self.changes]

    def succeed(self) -> None:
        change = self.changes[-1]
        result = IsrChangeResult(ErrorCode.NONE, change.isr, change.leader_epoch, change.partition_epoch + 1)
        self.callbacks[-1](result)

    def fail(self, error: ErrorCode) -> None:
        self.callbacks[-1](IsrChangeResult(error))


async def lead(fixture, state, *, min_isr=1, records=0, make_batch=None):
    fixture.config["orders"] = (LogConfig(), min_isr)
    changes = fixture.replicas.isr_changes.alter_partition_manager = SubmittedChanges()
    partition = await fixture.make_leader_or_follower(state)
    for _ in range(records):
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
    return partition, changes


def test_caught_up_follower_joins_the_isr(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        state = leader_and_isr(leader_epoch=4, isr=(1,), replicas=(1, 2, 3), partition_epoch=6)
        partition, changes = await lead(fixture, state, records=3, make_batch=make_batch)
        fetch = fixture.replicas.record_follower_fetch
        fetch(partition, 2, 2, 0)
        assert changes.changes == []
        fetch(partition, 2, 3, 0)
        assert changes.changes == [IsrChange((1, 2), 4, 6)]
        fetch(partition, 3, 3, 0)
        assert len(changes.changes) == 1, "one change at a time"
        changes.succeed()
        assert (partition.leader_state.isr, partition.partition_epoch) == ((1, 2), 7)
        fetch(partition, 3, 3, 0)
        assert changes.changes[1:] == [IsrChange((1, 2, 3), 4, 7)]

    run_scenario(scenario)


def test_proposed_member_holds_the_high_watermark_back(run_scenario, leader_and_isr, make_batch):
    """Proposed before the high watermark moves: otherwise it would never reach it."""

    async def scenario(fixture):
        state = leader_and_isr(isr=(1,), replicas=(1, 2))
        partition, changes = await lead(fixture, state)
        fixture.replicas.record_follower_fetch(partition, 2, 0, 0)
        assert changes.isrs == [(1, 2)]
        fixture.advance_time(LAG_MS + 1)
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
        assert partition.log.high_watermark == 0
        changes.fail(ErrorCode.INVALID_UPDATE_VERSION)
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
        assert partition.log.high_watermark == 0, "it stays pending until LeaderAndIsr"
        await fixture.make_leader_or_follower(
            leader_and_isr(leader_epoch=1, isr=(1,), replicas=(1, 2), partition_epoch=3)
        )
        assert partition.log.high_watermark == 2
        assert partition.leader_state.maximal_isr == (1,)

    run_scenario(scenario)


def test_slow_follower_joins_before_the_high_watermark_passes_it(run_scenario, leader_and_isr, make_batch):
    """Proposed first, it holds the high watermark back; else it would chase it for ever."""

    async def scenario(fixture):
        state = leader_and_isr(isr=(1, 3), replicas=(1, 2, 3))
        partition, changes = await lead(fixture, state, records=2, make_batch=make_batch)
        fixture.replicas.record_follower_fetch(partition, 3, 1, 0)
        assert partition.log.high_watermark == 1
        leader = partition.leader_state
        leader.record_fetch(leader.replica(3), 2, 0, 2)
        fixture.replicas.record_follower_fetch(partition, 2, 1, 0)
        assert (changes.isrs, partition.log.high_watermark) == ([(1, 3, 2)], 1)

    run_scenario(scenario)


def test_rejected_member_does_not_hold_the_high_watermark_back(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition, changes = await lead(fixture, leader_and_isr(isr=(1,), replicas=(1, 2)))
        fixture.replicas.record_follower_fetch(partition, 2, 0, 0)
        fixture.advance_time(LAG_MS + 1)
        changes.fail(ErrorCode.INELIGIBLE_REPLICA)
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
        assert partition.log.high_watermark == 1
        fixture.replicas.record_follower_fetch(partition, 2, 1, 0)
        assert changes.isrs == [(1, 2), (1, 2)]

    run_scenario(scenario)


def test_lagging_follower_is_removed_once_confirmed(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        state = leader_and_isr(isr=(1, 2, 3))
        partition, changes = await lead(fixture, state, records=1, make_batch=make_batch)
        entry = PartitionProduceResponse()
        completed = []
        status = ProducePartitionStatus(partition, 1, entry)
        fixture.replicas.delay_produce(
            DelayedProduce([status], lambda: completed.append(1)), {partition: 1}, 60_000
        )
        fixture.advance_time(LAG_MS)
        await fixture.replicas.shrink_isrs()
        assert changes.changes == []
        fixture.replicas.record_follower_fetch(partition, 2, 1, 0)
        fixture.advance_time(1)
        await fixture.replicas.shrink_isrs()
        await fixture.replicas.shrink_isrs()
        assert changes.isrs == [(1, 2)]
        fixture.replicas.record_follower_fetch(partition, 2, 1, 0)
        assert (partition.log.high_watermark, completed) == (0, [])
        changes.succeed()
        assert (partition.log.high_watermark, completed, entry.error_code) == (1, [1], 0)

    run_scenario(scenario)


def test_other_errors_are_retried(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition, changes = await lead(fixture, leader_and_isr(isr=(1,), replicas=(1, 2)))
        fixture.replicas.record_follower_fetch(partition, 2, 0, 0)
        changes.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert changes.isrs == [(1, 2), (1, 2)]
        assert changes.changes[0] is changes.changes[1]
        changes.succeed()
        assert partition.leader_state.isr == (1, 2)

    run_scenario(scenario)


def test_result_after_a_role_change_is_ignored(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition, changes = await lead(fixture, leader_and_isr(isr=(1,), replicas=(1, 2)))
        fixture.replicas.record_follower_fetch(partition, 2, 0, 0)
        await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2), partition_epoch=5)
        )
        changes.succeed()
        assert (partition.leader_state, partition.partition_epoch) == (None, 5)
        await fixture.make_leader_or_follower(
            leader_and_isr(leader_epoch=2, isr=(1,), replicas=(1, 2), partition_epoch=6)
        )
        changes.succeed()
        assert (partition.leader_state.isr, partition.partition_epoch) == ((1,), 6)
        fixture.replicas.record_follower_fetch(partition, 2, 0, 0)
        changes.callbacks[0](IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA))
        assert partition.leader_state.maximal_isr == (1, 2), "the new proposal is still pending"

    run_scenario(scenario)


def test_dead_broker_does_not_join(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition, changes = await lead(fixture, leader_and_isr(isr=(1,), replicas=(1, 9)))
        fixture.replicas.record_follower_fetch(partition, 9, 0, 0)
        assert changes.changes == []

    run_scenario(scenario)


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_high_watermark_stands_still_below_min_isr(run_scenario, leader_and_isr, make_batch, isr):
    async def scenario(fixture):
        state = leader_and_isr(isr=isr, replicas=(1, 2, 3))
        partition, _ = await lead(fixture, state, min_isr=2, records=1, make_batch=make_batch)
        for broker_id in (2, 3):
            fixture.replicas.record_follower_fetch(partition, broker_id, 1, 0)
        assert partition.log.high_watermark == len(isr) - 1, "also for acks=1"
        if isr == (1,):
            with pytest.raises(BrokerError, match="NOT_ENOUGH_REPLICAS"):
                partition.append(make_batch(b"x"), ACKS_ALL, 11, 0)
        else:
            partition.append(make_batch(b"x"), ACKS_ALL, 11, 0)

    run_scenario(scenario)


def test_fetch_of_a_former_follower_changes_nothing(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition, changes = await lead(fixture, leader_and_isr(isr=(1,), replicas=(1, 2)))
        fixture.replicas.record_follower_fetch(partition, 3, 0, 0)
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2)))
        fixture.replicas.record_follower_fetch(partition, 2, 0, 0)
        assert changes.changes == []

    run_scenario(scenario)
