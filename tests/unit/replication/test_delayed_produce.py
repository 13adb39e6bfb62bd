"""Produce requests that wait for the in-sync replicas: how each partition ends, and that all end once."""

from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ACKS_ALL
from odradek.replication.delayed_produce import DelayedProduce, ProducePartitionStatus
from odradek.wire.messages.produce import PartitionProduceResponse


class Wait:
    """A produce to some partitions, and how it ended."""

    def __init__(self, shed, *partitions, make_batch, timeout_ms=1000):
        self.ends = 0
        self.entries = []
        waiting = []
        for partition in partitions:
            appended = partition.append(make_batch(b"x"), ACKS_ALL, 11, shed.clock.now_ms)
            entry = PartitionProduceResponse(partition.topic_partition.partition, 0, appended.first_offset)
            self.entries.append(entry)
            waiting.append(ProducePartitionStatus(partition, appended.last_offset + 1, entry))
        operation = DelayedProduce(waiting, self._end)
        shed.replicas.delay_produce(operation, partitions, timeout_ms)

    def _end(self):
        self.ends += 1

    @property
    def codes(self):
        return [entry.error_code for entry in self.entries]


def test_it_ends_when_the_high_watermark_passes(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        wait = Wait(shed, partition, make_batch=make_batch)
        assert wait.ends == 0
        shed.follow(partition, 2, 1)
        shed.replicas.changed(partition)
        assert (wait.ends, wait.codes) == (1, [0])
        assert wait.entries[0].base_offset == 0
        shed.replicas.changed(partition)
        shed.pass_time(5000)
        assert wait.ends == 1

    play(scenario)


def test_a_follower_that_has_only_part_of_it_does_not_end_it(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        first = Wait(shed, partition, make_batch=make_batch)
        second = Wait(shed, partition, make_batch=make_batch)
        shed.follow(partition, 2, 1)
        shed.replicas.changed(partition)
        assert (first.ends, second.ends) == (1, 0)

    play(scenario)


def test_time_runs_out(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        wait = Wait(shed, partition, make_batch=make_batch, timeout_ms=300)
        shed.pass_time(299)
        assert wait.ends == 0
        shed.pass_time(1)
        assert (wait.ends, wait.codes) == (1, [ErrorCode.REQUEST_TIMED_OUT])
        assert wait.entries[0].base_offset == -1
        shed.follow(partition, 2, 1)
        shed.replicas.changed(partition)
        assert (wait.ends, wait.codes) == (1, [ErrorCode.REQUEST_TIMED_OUT])

    play(scenario)


def test_only_the_partitions_that_are_late_time_out(play, told, make_batch):
    async def scenario(shed):
        quick = await shed.become_leader_or_follower(told(isr=(1, 2)))
        slow = await shed.become_leader_or_follower(told(isr=(1, 3)), number=1)
        wait = Wait(shed, quick, slow, make_batch=make_batch)
        shed.follow(quick, 2, 1)
        shed.replicas.changed(quick)
        assert wait.ends == 0
        shed.pass_time(1000)
        assert (wait.ends, wait.codes) == (1, [0, ErrorCode.REQUEST_TIMED_OUT])

    play(scenario)


def test_losing_the_leadership_ends_it(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        wait = Wait(shed, partition, make_batch=make_batch)
        await shed.become_leader_or_follower(told(leader=2, leader_epoch=1, isr=(1, 2), partition_epoch=1))
        assert (wait.ends, wait.codes) == (1, [ErrorCode.NOT_LEADER_OR_FOLLOWER])

    play(scenario)


def test_removing_the_partition_ends_it(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        wait = Wait(shed, partition, make_batch=make_batch)
        shed.replicas.remove([TopicPartition("orders", 0)])
        assert (wait.ends, wait.codes) == (1, [ErrorCode.NOT_LEADER_OR_FOLLOWER])

    play(scenario)


def test_a_shrinking_in_sync_set_ends_it_too(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        wait = Wait(shed, partition, make_batch=make_batch)
        shed.pass_time(20_000)
        late = Wait(shed, partition, make_batch=make_batch, timeout_ms=60_000)
        await shed.become_leader_or_follower(told(isr=(1,), replicas=(1, 2), partition_epoch=1))
        assert wait.codes == [ErrorCode.REQUEST_TIMED_OUT]
        assert (late.ends, late.codes) == (1, [0]), "committed by the one that is left"

    play(scenario)


def test_committed_by_too_few_is_said(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(), 2)
        partition = await shed.become_leader_or_follower(told(isr=(1, 2, 3)))
        wait = Wait(shed, partition, make_batch=make_batch)
        shed.follow(partition, 2, 1)
        shed.follow(partition, 3, 1)
        partition._progress.commit((1,))
        shed.replicas.changed(partition)
        assert (wait.ends, wait.codes) == (1, [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])

    play(scenario)


def test_a_lower_minimum_lets_those_who_wait_go(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(), 2)
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        wait = Wait(shed, partition, make_batch=make_batch)
        shed.follow(partition, 2, 1)
        shed.config["orders"] = (LogConfig(), 1)
        shed.replicas.reconfigure(["orders"])
        assert (wait.ends, wait.codes) == (1, [0])

    play(scenario)
