"""Delayed produce requests with acks=all."""

from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import ACKS_ALL
from odradek.replication.delayed.delayed_produce import (
    DelayedProduce,
    ProducePartitionStatus,
    required_offsets,
)
from odradek.wire.messages.produce import PartitionProduceResponse


class PendingProduce:
    """A delayed produce to some partitions, and its completions."""

    def __init__(self, fixture, *partitions, make_batch, timeout_ms=1000):
        self.completions = 0
        self.entries = []
        statuses = []
        for partition in partitions:
            appended = partition.append(make_batch(b"x"), ACKS_ALL, 11, fixture.clock.now_ms)
            entry = PartitionProduceResponse(partition.topic_partition.partition, 0, appended.first_offset)
            self.entries.append(entry)
            statuses.append(ProducePartitionStatus(partition, appended.last_offset + 1, entry))
        operation = DelayedProduce(statuses, self._complete)
        fixture.replicas.delay_produce(operation, required_offsets(statuses), timeout_ms)

    def _complete(self):
        self.completions += 1

    @property
    def codes(self):
        return [entry.error_code for entry in self.entries]


def test_delayed_produce_completes_when_high_watermark_passes(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch)
        assert produce.completions == 0
        fixture.fetch_as_follower(partition, 2, 1)
        fixture.replicas.complete_delayed_requests(partition)
        assert (produce.completions, produce.codes) == (1, [0])
        assert produce.entries[0].base_offset == 0
        fixture.replicas.complete_delayed_requests(partition)
        fixture.advance_time(5000)
        assert produce.completions == 1

    run_scenario(scenario)


def test_partially_replicated_produce_stays_delayed(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        first = PendingProduce(fixture, partition, make_batch=make_batch)
        second = PendingProduce(fixture, partition, make_batch=make_batch)
        fixture.fetch_as_follower(partition, 2, 1)
        fixture.replicas.complete_delayed_requests(partition)
        assert (first.completions, second.completions) == (1, 0)

    run_scenario(scenario)


def test_delayed_produce_times_out(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch, timeout_ms=300)
        fixture.advance_time(299)
        assert produce.completions == 0
        fixture.advance_time(1)
        assert (produce.completions, produce.codes) == (1, [ErrorCode.REQUEST_TIMED_OUT])
        assert produce.entries[0].base_offset == -1
        fixture.fetch_as_follower(partition, 2, 1)
        fixture.replicas.complete_delayed_requests(partition)
        assert (produce.completions, produce.codes) == (1, [ErrorCode.REQUEST_TIMED_OUT])

    run_scenario(scenario)


def test_only_uncommitted_partitions_time_out(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        quick = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        slow = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 3)), number=1)
        produce = PendingProduce(fixture, quick, slow, make_batch=make_batch)
        fixture.fetch_as_follower(quick, 2, 1)
        fixture.replicas.complete_delayed_requests(quick)
        assert produce.completions == 0
        fixture.advance_time(1000)
        assert (produce.completions, produce.codes) == (1, [0, ErrorCode.REQUEST_TIMED_OUT])

    run_scenario(scenario)


def test_delayed_produce_fails_when_leadership_is_lost(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch)
        await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2), partition_epoch=1)
        )
        assert (produce.completions, produce.codes) == (1, [ErrorCode.NOT_LEADER_OR_FOLLOWER])

    run_scenario(scenario)


def test_delayed_produce_fails_when_partition_is_removed(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch)
        await fixture.stop_replicas(("orders", 0))
        assert (produce.completions, produce.codes) == (1, [ErrorCode.NOT_LEADER_OR_FOLLOWER])

    run_scenario(scenario)


def test_delayed_produce_completes_when_isr_shrinks(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch)
        fixture.advance_time(20_000)
        late = PendingProduce(fixture, partition, make_batch=make_batch, timeout_ms=60_000)
        fixture.change_isr(partition, 1)
        assert produce.codes == [ErrorCode.REQUEST_TIMED_OUT]
        assert (late.completions, late.codes) == (1, [0]), "committed by the remaining ISR member"

    run_scenario(scenario)


def test_commit_below_min_isr_fails_after_append(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(), 2)
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2, 3)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch)
        fixture.fetch_as_follower(partition, 2, 1)
        fixture.fetch_as_follower(partition, 3, 1)
        fixture.change_isr(partition, 1)
        fixture.replicas.complete_delayed_requests(partition)
        assert (produce.completions, produce.codes) == (1, [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])

    run_scenario(scenario)


def test_lowered_min_isr_completes_delayed_produce(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(), 2)
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        produce = PendingProduce(fixture, partition, make_batch=make_batch)
        fixture.fetch_as_follower(partition, 2, 1)
        fixture.config["orders"] = (LogConfig(), 1)
        fixture.replicas.reconfigure(["orders"])
        assert (produce.completions, produce.codes) == (1, [0])

    run_scenario(scenario)
