"""The replica manager: lookup, role changes, removal, config changes."""

import asyncio
import errno
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cluster.metadata_cache import PartitionMetadata
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.replication.delayed.delayed_fetch import DelayedFetch
from odradek.replication.partition import DEBUGGING_CONSUMER_ID
from odradek.replication.partition_logs import PartitionLogs, RetryableLog
from odradek.testing.entropy import SeededEntropy

ORDERS = TopicPartition("orders", 0)


def error_code(call, *args):
    with pytest.raises(BrokerError) as raised:
        call(*args)
    return raised.value.code


def test_leader_and_isr_creates_log_and_leader(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        assert fixture.replicas.get_leader_partition("orders", 0) is partition
        assert fixture.directory.get(ORDERS) is partition.log
        assert list(fixture.replicas) == [partition]
        assert partition.log.topic_id == b"t" * 16

    run_scenario(scenario)


def test_many_partitions_are_created_at_once(run_scenario, leader_and_isr):
    async def scenario(fixture):
        await fixture.send_leader_and_isr({("orders", number): leader_and_isr() for number in range(100)})
        assert len(list(fixture.replicas)) == 100
        assert all(partition.is_leader for partition in fixture.replicas)

    run_scenario(scenario)


def test_error_for_partition_not_on_this_broker(run_scenario, leader_and_isr):
    async def scenario(fixture):
        fixture.add_topic("elsewhere", PartitionMetadata(0, 2, 0, (2,), (2,)))
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, isr=(1, 2)), topic="followed")
        get_leader_partition = fixture.replicas.get_leader_partition
        assert error_code(get_leader_partition, "nowhere", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error_code(get_leader_partition, "elsewhere", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error_code(get_leader_partition, "elsewhere", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error_code(get_leader_partition, "followed", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fixture.replicas.partition_error(None, 0).code == ErrorCode.UNKNOWN_TOPIC_ID
        assert fixture.replicas.get_partition(None, 0) is None

    run_scenario(scenario)


def test_debugging_consumer_may_read_a_follower(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader=2, isr=(1, 2)))
        assert fixture.replicas.get_readable_partition(DEBUGGING_CONSUMER_ID, "orders", 0) is partition
        assert (
            error_code(fixture.replicas.get_readable_partition, -1, "orders", 0)
            == ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert (
            error_code(fixture.replicas.get_readable_partition, DEBUGGING_CONSUMER_ID, "x", 0)
            == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    run_scenario(scenario)


def test_leader_becomes_follower_and_leader_again(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        partition.append(make_batch(b"x"), ACKS_LEADER, 11, 0)
        await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2), partition_epoch=1)
        )
        assert not partition.is_leader
        recreated = await fixture.make_leader_or_follower(
            leader_and_isr(leader_epoch=2, isr=(1,), replicas=(1, 2), partition_epoch=2)
        )
        assert recreated is partition
        assert partition.is_leader
        assert partition.log.high_watermark == 1, "the other replica is neither in the ISR nor known"

    run_scenario(scenario)


def test_failed_log_creation_affects_one_partition_only(run_scenario, leader_and_isr):
    async def scenario(fixture):
        fixture.files.fail_next_write(errno.ENOSPC, name_end="orders-0/partition.metadata.tmp")
        errors = await fixture.send_leader_and_isr(
            {("orders", number): leader_and_isr() for number in range(3)}
        )
        assert [partition for partition, error in errors.items() if error] == [ORDERS]
        assert errors[ORDERS] == ErrorCode.KAFKA_STORAGE_ERROR
        assert fixture.replicas.get_partition("orders", 0) is None
        assert error_code(fixture.replicas.get_leader_partition, "orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert fixture.replicas.get_partition("orders", 1) is not None
        assert fixture.replicas.get_partition("orders", 2) is not None

    run_scenario(scenario)


def test_log_dir_failure_takes_only_its_partitions_offline(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        other = LogDirectory.open(fixture.files, "/other", SeededEntropy())
        await other.load(lambda topic: LogConfig(), 0)
        fixture.use(fixture.directory, other)
        partition_states = {
            TopicPartition("orders", number): leader_and_isr(is_new=True) for number in range(4)
        }
        assert not any((await fixture.send_leader_and_isr(partition_states)).values())
        assert {len(fixture.directory), len(other)} == {2}
        offline = {log.topic_partition for log in fixture.directory}
        retryable = fixture.replicas.get_leader_partition(*min(offline))
        responses = []
        delayed = DelayedFetch(lambda: retryable.is_offline, lambda: responses.append("told"))
        fixture.replicas.delay_fetch(delayed, [retryable], 1000)

        fixture.directory.fail(StorageError("the disk is gone"))
        assert set(fixture.replicas.handle_log_dir_failure(fixture.directory)) == offline
        fixture.directory.abandon()

        assert responses == ["told"]
        assert (
            error_code(retryable.append, make_batch(b"x"), ACKS_LEADER, 11, 0)
            == ErrorCode.KAFKA_STORAGE_ERROR
        )
        assert retryable.check_enough_replicas_reach_offset(1, None) == ErrorCode.KAFKA_STORAGE_ERROR
        for topic_partition in partition_states:
            if topic_partition in offline:
                code = error_code(fixture.replicas.get_leader_partition, *topic_partition)
                assert code == ErrorCode.KAFKA_STORAGE_ERROR
                assert fixture.replicas.get_partition(*topic_partition) is None
            else:
                fixture.replicas.get_leader_partition(*topic_partition).append(
                    make_batch(b"x"), ACKS_LEADER, 11, 0
                )
        for state in partition_states.values():
            state.leader_epoch += 1
        errors = await fixture.send_leader_and_isr(partition_states)
        failed = {partition for partition, error in errors.items() if error}
        assert failed == offline, "LeaderAndIsr does not bring them back"
        errors = await fixture.stop_replicas(*partition_states)
        failed = {partition for partition, error in errors.items() if error}
        assert failed == offline, "offline partitions keep their files"

    run_scenario(scenario)


def test_no_empty_log_is_created_while_a_directory_is_offline(run_scenario, leader_and_isr):
    async def scenario(fixture):
        failed_directory = LogDirectory.open(fixture.files, "/broken", SeededEntropy())
        fixture.use(fixture.directory, failed_directory)
        failed_directory.fail(StorageError("the disk is gone"))
        old, new = TopicPartition("orders", 0), TopicPartition("orders", 1)
        errors = await fixture.send_leader_and_isr({old: leader_and_isr(), new: leader_and_isr(is_new=True)})
        assert errors == {old: ErrorCode.KAFKA_STORAGE_ERROR, new: ErrorCode.NONE}
        assert [log.topic_partition for log in fixture.directory] == [new]

    run_scenario(scenario)


def test_log_with_another_topic_id_is_not_used(run_scenario, leader_and_isr):
    async def scenario(fixture):
        await fixture.directory.create(ORDERS, LogConfig(), b"o" * 16)
        errors = await fixture.send_leader_and_isr({ORDERS: leader_and_isr()})
        assert errors == {ORDERS: ErrorCode.INCONSISTENT_TOPIC_ID}
        assert fixture.replicas.get_partition("orders", 0) is None

    run_scenario(scenario)


def test_existing_log_keeps_records_and_high_watermark(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        log = await fixture.directory.create(ORDERS, LogConfig(), b"t" * 16)
        for value in (b"a", b"b", b"c"):
            log.append_as_leader(make_batch(value), 0, 0)
        fixture.directory.high_watermarks = {ORDERS: 2}
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=1, isr=(1, 2)))
        assert partition.log is log
        assert partition.log.high_watermark == 2

    run_scenario(scenario)


def test_checkpointed_high_watermark_is_capped_at_log_end(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        log = await fixture.directory.create(ORDERS, LogConfig(), b"t" * 16)
        log.append_as_leader(make_batch(b"a"), 0, 0)
        fixture.directory.high_watermarks = {ORDERS: 9}
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=1, isr=(1, 2)))
        assert partition.log.high_watermark == 1

    run_scenario(scenario)


def test_stopped_replica_is_removed_and_completes_delayed_fetches(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        other = await fixture.make_leader_or_follower(leader_and_isr(), number=1)
        responses = []
        retryable = DelayedFetch(lambda: not partition.is_leader, lambda: responses.append("gone"))
        fixture.replicas.delay_fetch(retryable, [partition], 60_000)
        assert await fixture.stop_replicas(ORDERS) == {ORDERS: ErrorCode.NONE}
        assert responses == ["gone"]
        assert fixture.replicas.get_partition("orders", 0) is None
        assert fixture.directory.get(ORDERS) is None
        assert list(fixture.replicas) == [other]

    run_scenario(scenario)


class KeepNothing(SeededEntropy):
    """A power failure that loses everything that was not synced."""

    def below(self, limit: int) -> int:
        return 0


def test_stopped_replica_is_gone_after_a_power_failure(run_scenario, leader_and_isr):
    async def scenario(fixture):
        await fixture.make_leader_or_follower(leader_and_isr())
        assert await fixture.stop_replicas(ORDERS) == {ORDERS: ErrorCode.NONE}
        fixture.files.crash(KeepNothing())
        await fixture.open()
        assert fixture.directory.get(ORDERS) is None

    run_scenario(scenario)


def test_deletion_that_is_not_durable_is_an_error(run_scenario, leader_and_isr):
    async def scenario(fixture):
        await fixture.make_leader_or_follower(leader_and_isr())
        fixture.files.fail_next_sync(errno.EIO, name_end="/data")
        assert await fixture.stop_replicas(ORDERS) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
        assert fixture.directory.failure is not None

    run_scenario(scenario)


def test_removing_an_unknown_partition_succeeds(run_scenario, leader_and_isr):
    async def scenario(fixture):
        ghost = TopicPartition("ghost", 3)
        assert await fixture.stop_replicas(ghost) == {ghost: ErrorCode.NONE}

    run_scenario(scenario)


def test_recreated_topic_starts_empty(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        partition.append(make_batch(b"old"), ACKS_LEADER, 11, 0)
        await fixture.stop_replicas(ORDERS)
        recreated = await fixture.make_leader_or_follower(leader_and_isr(), topic_id=b"n" * 16)
        assert recreated is not partition
        assert recreated.log.log_end_offset == 0
        assert recreated.topic_id == b"n" * 16

    run_scenario(scenario)


def test_changed_configs_are_applied_to_logs(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition_states = await fixture.make_leader_or_follower(leader_and_isr())
        others = await fixture.make_leader_or_follower(leader_and_isr(), topic="others")
        fixture.config["orders"] = (LogConfig(max_message_bytes=77), 2)
        fixture.config["others"] = (LogConfig(max_message_bytes=88), 3)
        fixture.replicas.reconfigure(["orders", "nowhere"])
        assert (partition_states.log.config.max_message_bytes, partition_states.min_isr) == (77, 2)
        assert others.min_isr == 1
        fixture.replicas.reconfigure()
        assert (others.log.config.max_message_bytes, others.min_isr) == (88, 3)

    run_scenario(scenario)


def test_delayed_fetch_arms_a_timer_for_its_deadline(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        ended = []
        fixture.replicas.delay_fetch(DelayedFetch(lambda: False, lambda: ended.append(1)), [partition], 500)
        assert fixture.armed == [fixture.clock.now_ms + 500]
        fixture.advance_time(499)
        assert ended == []
        fixture.advance_time(1)
        assert ended == [1]

    run_scenario(scenario)


def test_satisfied_fetch_arms_no_timer(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        fixture.replicas.delay_fetch(DelayedFetch(lambda: True, lambda: None), [partition], 500)
        assert fixture.armed == []

    run_scenario(scenario)


def test_complete_all_delayed_completes_each_request_once(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        ended: list[str] = []
        fetch, produce = (
            DelayedFetch(lambda: False, partial(ended.append, name)) for name in ("fetch", "produce")
        )
        fixture.replicas.delay_fetch(fetch, [partition], 500)
        fixture.replicas.delay_produce(produce, {partition: 1}, 500)
        fixture.replicas.complete_all_delayed()
        assert sorted(ended) == ["fetch", "produce"]
        fixture.advance_time(1000)
        assert len(ended) == 2

    run_scenario(scenario)


def test_leadership_observers_see_each_change(run_scenario, leader_and_isr):
    async def scenario(fixture):
        changes = []
        fixture.replicas.leadership_observers.append(
            lambda changed: changes.append((changed.topic_partition, changed.is_leader))
        )
        await fixture.make_leader_or_follower(leader_and_isr())
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2)))
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=2, isr=(1, 2)))
        assert changes == [(ORDERS, True), (ORDERS, False), (ORDERS, True)]
        await fixture.make_leader_or_follower(leader_and_isr(), topic="other")
        await fixture.stop_replicas(("other", 0))
        assert changes[3:] == [(("other", 0), True), (("other", 0), False)]
        fixture.replicas.handle_log_dir_failure(fixture.directory)
        assert changes[5:] == [(ORDERS, False)]

    run_scenario(scenario)


@pytest.mark.parametrize("is_new", [True, False])
def test_existing_log_is_not_replaced_by_an_empty_one(is_new):
    created = []

    async def create(*arguments, **how):
        created.append(arguments[0])

    log_manager: Any = SimpleNamespace(find_unusable=lambda _: None, find=lambda _: None, create=create)
    nothing: Any = None
    logs = PartitionLogs(log_manager, nothing, lambda topic: (LogConfig(), 1), nothing)
    retryable = RetryableLog(bytes(16), is_new=is_new)
    assert asyncio.run(logs.retry_log(ORDERS, retryable)) is is_new
    assert created == ([ORDERS] if is_new else [])
