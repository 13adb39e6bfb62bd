"""The partitions of a broker: found, told to lead or follow, removed, reconfigured."""

import asyncio
import errno
from types import SimpleNamespace

import pytest

from odradek.cluster.metadata_cache import PartitionMetadata
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.replication.delayed_fetch import DelayedFetch
from odradek.replication.partition import DEBUGGING_CONSUMER_ID
from odradek.replication.replica_manager import ReplicaManager, _Waiting
from odradek.testing.entropy import SeededEntropy

ORDERS = TopicPartition("orders", 0)


def refusal(call, *args):
    with pytest.raises(BrokerError) as refused:
        call(*args)
    return refused.value.code


def test_orders_make_logs_and_leaders(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        assert shed.replicas.get_leader_partition("orders", 0) is partition
        assert shed.directory.get(ORDERS) is partition.log
        assert list(shed.replicas) == [partition]
        assert partition.log.topic_id == b"t" * 16

    play(scenario)


def test_many_orders_are_obeyed_at_once(play, told):
    async def scenario(shed):
        orders = {TopicPartition("orders", number): (b"t" * 16, told()) for number in range(100)}
        await shed.replicas.become_leader_or_follower(orders)
        assert len(list(shed.replicas)) == 100
        assert all(partition.is_leader for partition in shed.replicas)

    play(scenario)


def test_why_a_partition_is_not_here(play, told):
    async def scenario(shed):
        shed.show("elsewhere", PartitionMetadata(0, 2, 0, (2,), (2,)))
        await shed.become_leader_or_follower(told(leader=2, isr=(1, 2)), topic="followed")
        get_leader_partition = shed.replicas.get_leader_partition
        assert refusal(get_leader_partition, "nowhere", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal(get_leader_partition, "elsewhere", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal(get_leader_partition, "elsewhere", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refusal(get_leader_partition, "followed", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert shed.replicas.partition_error(None, 0).code == ErrorCode.UNKNOWN_TOPIC_ID
        assert shed.replicas.find(None, 0) is None

    play(scenario)


def test_a_debugger_may_read_a_follower(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader=2, isr=(1, 2)))
        assert shed.replicas.get_readable_partition(DEBUGGING_CONSUMER_ID, "orders", 0) is partition
        assert (
            refusal(shed.replicas.get_readable_partition, -1, "orders", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert (
            refusal(shed.replicas.get_readable_partition, DEBUGGING_CONSUMER_ID, "x", 0)
            == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    play(scenario)


def test_a_leader_turns_follower_and_back(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
        await shed.become_leader_or_follower(told(leader=2, leader_epoch=1, isr=(1, 2), partition_epoch=1))
        assert not partition.is_leader
        again = await shed.become_leader_or_follower(
            told(leader_epoch=2, isr=(1,), replicas=(1, 2), partition_epoch=2)
        )
        assert again is partition
        assert partition.is_leader
        assert partition.log.high_watermark == 1, "the other is neither in sync nor seen"

    play(scenario)


def test_a_partition_that_cannot_be_opened_leaves_the_others_alone(play, told):
    async def scenario(shed):
        shed.files.fail_next_write(errno.ENOSPC, name_end="orders-0/partition.metadata.tmp")
        orders = {TopicPartition("orders", number): (b"t" * 16, told()) for number in range(3)}
        assert await shed.replicas.become_leader_or_follower(orders) == [ORDERS]
        assert shed.replicas.find("orders", 0) is None
        assert refusal(shed.replicas.get_leader_partition, "orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert shed.replicas.find("orders", 1) is not None
        assert shed.replicas.find("orders", 2) is not None

    play(scenario)


def test_a_failed_directory_takes_its_partitions_offline_and_no_others(play, told, make_batch):
    async def scenario(shed):
        other = LogDirectory.open(shed.files, "/other", SeededEntropy())
        await other.load(lambda topic: LogConfig(), 0)
        shed.use(shed.directory, other)
        orders = {TopicPartition("orders", number): (b"t" * 16, told()) for number in range(4)}
        assert await shed.replicas.become_leader_or_follower(orders, new=set(orders)) == []
        assert {len(shed.directory), len(other)} == {2}
        lost = {log.topic_partition for log in shed.directory}
        waiting = shed.replicas.get_leader_partition(*min(lost))
        answers = []
        delayed = DelayedFetch(lambda: waiting.is_offline, lambda: answers.append("told"))
        shed.replicas.delay_fetch(delayed, [waiting], 1000)

        shed.directory.fail(StorageError("the disk is gone"))
        assert set(shed.replicas.handle_log_dir_failure(shed.directory)) == lost
        shed.directory.abandon()

        assert answers == ["told"]
        assert refusal(waiting.append, make_batch(b"x"), ACKS_LEADER, 11, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert waiting.check_enough_replicas_reach_offset(1, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        for topic_partition in orders:
            if topic_partition in lost:
                code = refusal(shed.replicas.get_leader_partition, *topic_partition)
                assert code == ErrorCode.KAFKA_STORAGE_ERROR
                assert shed.replicas.find(*topic_partition) is None
            else:
                shed.replicas.get_leader_partition(*topic_partition).append(
                    make_batch(b"x"), ACKS_LEADER, 11, 0
                )
        assert set(await shed.replicas.become_leader_or_follower(orders)) == lost, "no order brings them back"
        assert set(shed.replicas.remove(orders)) == set(orders) - lost, "their files are still there"

    play(scenario)


def test_no_empty_log_is_begun_for_a_partition_whose_log_may_be_in_a_failed_directory(play, told):
    async def scenario(shed):
        broken = LogDirectory.open(shed.files, "/broken", SeededEntropy())
        shed.use(shed.directory, broken)
        broken.fail(StorageError("the disk is gone"))
        old, new = TopicPartition("orders", 0), TopicPartition("orders", 1)
        orders = {old: (b"t" * 16, told()), new: (b"t" * 16, told())}
        assert await shed.replicas.become_leader_or_follower(orders, new={new}) == [old]
        assert [log.topic_partition for log in shed.directory] == [new]

    play(scenario)


def test_a_log_of_another_topic_of_the_same_name_is_not_taken_over(play, told):
    async def scenario(shed):
        await shed.directory.create(ORDERS, LogConfig(), b"o" * 16)
        await shed.replicas.become_leader_or_follower({ORDERS: (b"t" * 16, told())})
        assert shed.replicas.find("orders", 0) is None

    play(scenario)


def test_an_existing_log_keeps_its_records_and_its_high_watermark(play, told, make_batch):
    async def scenario(shed):
        log = await shed.directory.create(ORDERS, LogConfig(), b"t" * 16)
        for value in (b"a", b"b", b"c"):
            log.append_as_leader(make_batch(value), 0, 0)
        shed.directory.high_watermarks = {ORDERS: 2}
        partition = await shed.become_leader_or_follower(told(leader_epoch=1, isr=(1, 2)))
        assert partition.log is log
        assert partition.log.high_watermark == 2

    play(scenario)


def test_a_checkpointed_high_watermark_beyond_the_end_is_capped(play, told, make_batch):
    async def scenario(shed):
        log = await shed.directory.create(ORDERS, LogConfig(), b"t" * 16)
        log.append_as_leader(make_batch(b"a"), 0, 0)
        shed.directory.high_watermarks = {ORDERS: 9}
        partition = await shed.become_leader_or_follower(told(leader_epoch=1, isr=(1, 2)))
        assert partition.log.high_watermark == 1

    play(scenario)


def test_a_removed_replica_is_found_no_more_and_its_waiters_are_told(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        other = await shed.become_leader_or_follower(told(), number=1)
        told_of = []
        waiting = DelayedFetch(lambda: not partition.is_leader, lambda: told_of.append("gone"))
        shed.replicas.delay_fetch(waiting, [partition], 60_000)
        assert shed.replicas.remove([ORDERS]) == [ORDERS]
        assert told_of == ["gone"]
        assert shed.replicas.find("orders", 0) is None
        assert shed.directory.get(ORDERS) is None
        assert list(shed.replicas) == [other]

    play(scenario)


def test_removing_what_is_not_here_counts_as_removed(play, told):
    async def scenario(shed):
        ghost = TopicPartition("ghost", 3)
        assert shed.replicas.remove([ghost]) == [ghost]

    play(scenario)


def test_a_topic_removed_and_made_again_starts_empty(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        partition.append(make_batch(b"old"), ACKS_LEADER, 11, 0)
        shed.replicas.remove([ORDERS])
        again = await shed.become_leader_or_follower(told(), topic_id=b"n" * 16)
        assert again is not partition
        assert again.log.log_end_offset == 0
        assert again.topic_id == b"n" * 16

    play(scenario)


def test_new_settings_reach_the_logs_of_their_topics(play, told):
    async def scenario(shed):
        orders = await shed.become_leader_or_follower(told())
        others = await shed.become_leader_or_follower(told(), topic="others")
        shed.config["orders"] = (LogConfig(max_message_bytes=77), 2)
        shed.config["others"] = (LogConfig(max_message_bytes=88), 3)
        shed.replicas.reconfigure(["orders", "nowhere"])
        assert (orders.log.config.max_message_bytes, orders.min_isr) == (77, 2)
        assert others.min_isr == 1
        shed.replicas.reconfigure()
        assert (others.log.config.max_message_bytes, others.min_isr) == (88, 3)

    play(scenario)


def test_waits_end_at_their_deadline_and_the_clock_is_armed_for_it(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        ended = []
        shed.replicas.delay_fetch(DelayedFetch(lambda: False, lambda: ended.append(1)), [partition], 500)
        assert shed.armed == [shed.clock.now_ms + 500]
        shed.pass_time(499)
        assert ended == []
        shed.pass_time(1)
        assert ended == [1]

    play(scenario)


def test_a_wait_that_is_over_at_once_arms_nothing(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        shed.replicas.delay_fetch(DelayedFetch(lambda: True, lambda: None), [partition], 500)
        assert shed.armed == []

    play(scenario)


def test_a_stop_releases_all_who_wait(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        ended = []
        for name in ("fetch", "produce"):
            delay = getattr(shed.replicas, f"delay_{name}")
            delay(DelayedFetch(lambda: False, lambda name=name: ended.append(name)), [partition], 500)
        shed.replicas.complete_all_delayed()
        assert sorted(ended) == ["fetch", "produce"]
        shed.pass_time(1000)
        assert len(ended) == 2

    play(scenario)


def test_observers_hear_of_leading_and_of_its_end_before_those_who_wait(play, told):
    async def scenario(shed):
        heard = []
        shed.replicas.leadership_observers.append(
            lambda one: heard.append((one.topic_partition, one.is_leader))
        )
        await shed.become_leader_or_follower(told())
        await shed.become_leader_or_follower(told(leader=2, leader_epoch=1, isr=(1, 2)))
        await shed.become_leader_or_follower(told(leader_epoch=2, isr=(1, 2)))
        assert heard == [(ORDERS, True), (ORDERS, False), (ORDERS, True)]
        await shed.become_leader_or_follower(told(), topic="other")
        shed.replicas.remove([TopicPartition("other", 0)])
        assert heard[3:] == [(("other", 0), True), (("other", 0), False)]
        shed.replicas.handle_log_dir_failure(shed.directory)
        assert heard[5:] == [(ORDERS, False)]

    play(scenario)


@pytest.mark.parametrize("never_had_a_log", [True, False])
def test_no_empty_log_takes_the_place_of_one_whose_directory_has_failed(never_had_a_log):
    made = []

    async def create(*given, **how):
        made.append(given[0])

    replicas = ReplicaManager.__new__(ReplicaManager)
    replicas._directories = SimpleNamespace(find_unusable=lambda _: None, find=lambda _: None, create=create)
    replicas._config_of = lambda topic: (None, 1)
    orders = TopicPartition("orders", 0)
    waiting = _Waiting(bytes(16), never_had_a_log=never_had_a_log)
    assert asyncio.run(replicas._place(orders, waiting)) is never_had_a_log
    assert made == ([orders] if never_had_a_log else [])
