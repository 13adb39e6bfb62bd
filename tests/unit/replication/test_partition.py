"""One partition: role changes, fencing, appends, reads, offsets."""

import errno
from functools import partial

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ACKS_ALL, ACKS_LEADER
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.replication.delete_records import delete_records_on_leader
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition
from odradek.replication.partition import CONSUMER_REPLICA_ID, DEBUGGING_CONSUMER_ID
from odradek.replication.reads.offset_lookup import (
    NOT_FOUND,
    TimestampAndOffset,
    find_offset_by_timestamp,
    find_special_offset,
    last_offset_for_leader_epoch,
    legacy_offsets_for_timestamp,
)

NOW_MS = 1_000_000


def fetch_partition(offset=0, *, epoch=-1, last_epoch=-1):
    return FetchPartition("orders", bytes(16), 0, offset, 0, 1 << 20, epoch, last_epoch)


def read(partition, offset=0, *, bytes_max=1 << 20, at_least_one=True, isolation=0, replica_id=-1, **how):
    return partition.read(fetch_partition(offset, **how), bytes_max, at_least_one, isolation, replica_id)


def values(result):
    data = result.records
    data = data.read() if isinstance(data, FileSlice) else bytes(data or b"")
    return [record.value for record in codec.decode(data)]


def error_code(call, *args, **how):
    with pytest.raises(BrokerError) as raised:
        call(*args, **how)
    return raised.value.code


def append(partition, *batches, acks=ACKS_LEADER):
    for batch in batches:
        appended = partition.append(batch, acks, 11, NOW_MS)
    return appended


def test_single_replica_leader_commits_its_appends(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        appended = append(partition, make_batch(b"a", b"b"), acks=ACKS_ALL)
        assert (appended.first_offset, appended.last_offset) == (0, 1)
        assert partition.log.high_watermark == 2
        assert partition.check_enough_replicas_reach_offset(2, partition.leader_state) == ErrorCode.NONE

    run_scenario(scenario)


def test_follower_rejects_appends_and_reads(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader=2, isr=(1, 2)))
        expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error_code(append, partition, make_batch(b"x")) == expected
        assert error_code(read, partition) == expected
        assert error_code(find_special_offset, partition, -1, 0, -1, CONSUMER_REPLICA_ID) == expected
        assert (
            error_code(legacy_offsets_for_timestamp, partition, -1, 1, CONSUMER_REPLICA_ID, NOW_MS)
            == expected
        )
        assert error_code(last_offset_for_leader_epoch, partition, 0, -1) == expected
        assert error_code(delete_records_on_leader, partition, 0) == expected
        assert find_special_offset(partition, -1, 0, -1, DEBUGGING_CONSUMER_ID).offset == 0, (
            "debugging tools may read any replica"
        )

    run_scenario(scenario)


def test_reads_are_fenced_by_leader_epoch(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5))
        assert error_code(read, partition, epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
        assert error_code(read, partition, epoch=6) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert read(partition, epoch=5).error == ErrorCode.NONE
        assert read(partition, epoch=-1).error == ErrorCode.NONE
        for replica_id in (CONSUMER_REPLICA_ID, DEBUGGING_CONSUMER_ID):
            find = partial(find_special_offset, partition)
            assert error_code(find, -1, 0, 4, replica_id) == ErrorCode.FENCED_LEADER_EPOCH
            assert error_code(find, -1, 0, 6, replica_id) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert error_code(last_offset_for_leader_epoch, partition, 0, 4) == ErrorCode.FENCED_LEADER_EPOCH

    run_scenario(scenario)


def test_stale_leader_and_isr_is_ignored(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5, partition_epoch=9))
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=4, isr=(1, 2), partition_epoch=10))
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5, isr=(1, 2), partition_epoch=8))
        await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, leader_epoch=4, isr=(1, 2), partition_epoch=10)
        )
        assert partition.is_leader
        assert (partition.leader_epoch, partition.partition_epoch) == (5, 9)
        append(partition, make_batch(b"x"))
        assert partition.log.high_watermark == 1, "it still has one replica"

    run_scenario(scenario)


def test_high_watermark_waits_for_slowest_isr_member(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2, 3)))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        assert partition.log.high_watermark == 0
        fixture.fetch_as_follower(partition, 2, 2)
        assert partition.log.high_watermark == 0
        fixture.fetch_as_follower(partition, 3, 1)
        assert partition.log.high_watermark == 1
        fixture.fetch_as_follower(partition, 3, 2)
        assert partition.log.high_watermark == 2

    run_scenario(scenario)


def test_consumers_read_to_high_watermark_and_followers_to_log_end(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, make_batch(b"a"), make_batch(b"b"), make_batch(b"c"))
        fixture.fetch_as_follower(partition, 2, 1)
        assert values(read(partition)) == [b"a"]
        assert values(read(partition, isolation=1)) == [b"a"]
        assert values(read(partition, replica_id=2)) == [b"a", b"b", b"c"]
        assert values(read(partition, 1)) == []
        assert find_special_offset(partition, -1, 0, -1, CONSUMER_REPLICA_ID).offset == 1
        assert find_special_offset(partition, -1, 0, -1, DEBUGGING_CONSUMER_ID).offset == 3
        assert find_special_offset(partition, -1, 0, -1, 2).offset == 3

    run_scenario(scenario)


def test_follower_may_be_broker_0(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 0)))
        append(partition, make_batch(b"a"))
        assert values(read(partition, replica_id=0)) == [b"a"]
        assert values(read(partition, replica_id=0, isolation=1)) == [b"a"]
        assert partition.has_changed_since(follower_result(partition, 0), 0)

    run_scenario(scenario)


def follower_result(partition, log_end_offset):
    result = read(partition, 1, replica_id=0)
    result.log_end_offset = log_end_offset
    return result


def test_fetch_offset_may_be_between_high_watermark_and_log_end(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        assert values(read(partition, 2)) == []
        assert error_code(read, partition, 3) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert error_code(read, partition, -1) == ErrorCode.OFFSET_OUT_OF_RANGE

    run_scenario(scenario)


def test_read_size_is_limited_except_for_first_batch(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        batch = make_batch(b"x" * 100)
        size = len(batch)
        append(partition, batch, make_batch(b"y" * 100), make_batch(b"z" * 100))
        assert len(values(read(partition, bytes_max=3 * size))) == 3
        assert len(values(read(partition, bytes_max=2 * size))) == 2
        assert len(values(read(partition, bytes_max=1))) == 1
        assert read(partition, bytes_max=1, at_least_one=False).records_bytes == 0

    run_scenario(scenario)


def test_acks_all_requires_min_isr(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(), 2)
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1,), replicas=(1, 2, 3)))
        code = error_code(append, partition, make_batch(b"x"), acks=ACKS_ALL)
        assert code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end_offset == 0
        append(partition, make_batch(b"x"), acks=ACKS_LEADER)
        assert partition.log.high_watermark == 0, "the high watermark stands still under min ISR"

    run_scenario(scenario)


def test_isr_shrink_after_append_is_reported(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(), 2)
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, make_batch(b"x"), acks=ACKS_ALL)
        leader = partition.leader_state
        assert partition.check_enough_replicas_reach_offset(1, leader) is None
        fixture.fetch_as_follower(partition, 2, 1)
        assert partition.check_enough_replicas_reach_offset(1, leader) == ErrorCode.NONE
        fixture.change_isr(partition, 1)
        code = partition.check_enough_replicas_reach_offset(1, leader)
        assert code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    run_scenario(scenario)


def test_append_of_an_earlier_leadership_is_not_acknowledged(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, make_batch(b"x"), acks=ACKS_ALL)
        leader = partition.leader_state
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=1, isr=(1, 2), partition_epoch=1))
        assert partition.check_enough_replicas_reach_offset(1, leader) is None, "the same leader goes on"
        await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, leader_epoch=2, isr=(1, 2), partition_epoch=2)
        )
        expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.check_enough_replicas_reach_offset(1, leader) == expected
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=3, isr=(1, 2), partition_epoch=3))
        assert partition.check_enough_replicas_reach_offset(1, leader) == expected, "another led in between"

    run_scenario(scenario)


def test_failed_write_is_a_storage_error(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        append(partition, make_batch(b"x"))
        fixture.files.fail_next_write(errno.EIO, name_end=".log")
        assert error_code(append, partition, make_batch(b"y")) == ErrorCode.KAFKA_STORAGE_ERROR

    run_scenario(scenario)


def test_missing_records_are_rejected(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        assert error_code(append, partition, None) in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)

    run_scenario(scenario)


def test_offsets_of_special_timestamps(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=3))
        append(partition, make_batch(b"a", timestamp=5000), make_batch(b"b", b"c", timestamp=2000))
        find = partial(find_special_offset, partition)
        assert find(-1, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 3, 3), "latest"
        assert find(-2, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 0, 3), "earliest"
        assert await find_offset_by_timestamp(
            partition, -3, 0, -1, CONSUMER_REPLICA_ID
        ) == TimestampAndOffset(5000, 0, 3), "largest timestamp"
        assert find(-4, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 0, 3), "earliest local"
        assert find(-5, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND, "latest tiered"
        assert error_code(find, -6, 0, -1, CONSUMER_REPLICA_ID) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        delete_records_on_leader(partition, 2)
        assert find(-2, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 2, 3)

    run_scenario(scenario)


def test_offsets_of_timestamps(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        append(partition, make_batch(b"a", b"b", timestamp=1000), make_batch(b"c", timestamp=3000))
        find = partial(find_offset_by_timestamp, partition)
        assert await find(0, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(1000, 0, 0)
        assert await find(1001, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(1001, 1, 0)
        assert await find(1002, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(3000, 2, 0)
        assert await find(3001, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND

    run_scenario(scenario)


def test_offsets_of_an_empty_log(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        assert await find_offset_by_timestamp(partition, -3, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND
        assert await find_offset_by_timestamp(partition, 500, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND
        assert find_special_offset(partition, -1, 0, -1, CONSUMER_REPLICA_ID).offset == 0
        assert find_special_offset(partition, -2, 0, -1, CONSUMER_REPLICA_ID).offset == 0

    run_scenario(scenario)


def test_timestamp_above_high_watermark_is_not_found(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, make_batch(b"a", timestamp=1000), make_batch(b"b", timestamp=2000))
        fixture.fetch_as_follower(partition, 2, 1)
        assert await find_offset_by_timestamp(partition, 2000, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND
        assert (await find_offset_by_timestamp(partition, 2000, 0, -1, DEBUGGING_CONSUMER_ID)).offset == 1

    run_scenario(scenario)


def test_legacy_offsets_are_capped_at_high_watermark(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(segment_bytes=160), 1)
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        for _ in range(4):
            append(partition, make_batch(b"x" * 80))
        assert legacy_offsets_for_timestamp(partition, -1, 10, DEBUGGING_CONSUMER_ID, NOW_MS) == [
            4,
            3,
            2,
            1,
            0,
        ]
        fixture.fetch_as_follower(partition, 2, 2)
        assert legacy_offsets_for_timestamp(partition, -1, 10, CONSUMER_REPLICA_ID, NOW_MS) == [2, 1, 0]
        assert legacy_offsets_for_timestamp(partition, -1, 1, CONSUMER_REPLICA_ID, NOW_MS) == [2]
        assert legacy_offsets_for_timestamp(partition, -2, 10, CONSUMER_REPLICA_ID, NOW_MS) == [0]

    run_scenario(scenario)


def test_diverging_epoch_is_returned(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=0))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=3, partition_epoch=1))
        append(partition, make_batch(b"c"))
        same = read(partition, 2, last_epoch=0)
        assert same.diverging_epoch == -1
        assert values(same) == [b"c"]
        ahead = read(partition, 3, last_epoch=0)
        assert (ahead.diverging_epoch, ahead.diverging_end_offset) == (0, 2)
        assert ahead.records_bytes == 0
        between = read(partition, 2, last_epoch=2)
        assert (between.diverging_epoch, between.diverging_end_offset) == (0, 2)
        assert values(read(partition, 2, last_epoch=3)) == [b"c"]
        assert error_code(read, partition, 2, last_epoch=4) == ErrorCode.OFFSET_OUT_OF_RANGE

    run_scenario(scenario)


def test_last_offset_for_leader_epoch(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=0))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=3, partition_epoch=1))
        append(partition, make_batch(b"c"))
        assert tuple(last_offset_for_leader_epoch(partition, 0, -1)) == (0, 2)
        assert tuple(last_offset_for_leader_epoch(partition, 2, -1)) == (0, 2)
        assert tuple(last_offset_for_leader_epoch(partition, 3, -1)) == (3, 3)
        assert tuple(last_offset_for_leader_epoch(partition, 4, -1)) == (-1, -1)

    run_scenario(scenario)


def test_delete_records_up_to_high_watermark(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, make_batch(b"a"), make_batch(b"b"), make_batch(b"c"))
        fixture.fetch_as_follower(partition, 2, 2)
        assert delete_records_on_leader(partition, 1) == (1, 0)
        assert delete_records_on_leader(partition, 0) == (0, 0)
        assert partition.log.log_start_offset == 1, "the log start offset does not decrease"
        assert error_code(delete_records_on_leader, partition, 3) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert error_code(delete_records_on_leader, partition, -2) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert delete_records_on_leader(partition, -1) == (2, 0), "the follower has not deleted anything"
        assert partition.log.log_start_offset == 2
        assert error_code(read, partition, 1) == ErrorCode.OFFSET_OUT_OF_RANGE

    run_scenario(scenario)


def test_delete_records_requires_delete_cleanup_policy(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(cleanup_policy=("compact",)), 1)
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        assert error_code(delete_records_on_leader, partition, 0) == ErrorCode.POLICY_VIOLATION
        fixture.config["orders"] = (LogConfig(cleanup_policy=("compact", "delete")), 1)
        fixture.replicas.reconfigure(["orders"])
        assert delete_records_on_leader(partition, 0) == (0, 0)

    run_scenario(scenario)


def test_has_changed_since_a_read(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        before = read(partition)
        assert not partition.has_changed_since(before)
        append(partition, make_batch(b"a"))
        assert partition.has_changed_since(before)
        now = read(partition)
        assert not partition.has_changed_since(now)
        delete_records_on_leader(partition, 1)
        assert partition.has_changed_since(now)
        now = read(partition, 1)
        partition.delete()
        assert partition.has_changed_since(now)

    run_scenario(scenario)
